// Replaces the page's data-part elements by those of another address, without a reload: filters
// (form[data-filter]) and links (a[data-in-place]).
import { announce } from "./announce.js";

let running;

export async function load(address) {
  running?.abort();
  running = new AbortController();
  const response = await fetch(address, { signal: running.signal, headers: { accept: "text/html" } });
  if (!response.ok || response.redirected) throw new Error(response.statusText);
  const page = new DOMParser().parseFromString(await response.text(), "text/html");
  for (const fresh of page.querySelectorAll("[data-part][id]")) {
    const old = document.getElementById(fresh.id);
    if (old && !old.contains(document.activeElement)) old.replaceWith(fresh);
    else if (old) old.replaceChildren(...fresh.childNodes);
  }
  document.title = page.title;
  document.dispatchEvent(new Event("parts"));
}

async function go(address, push = true) {
  try {
    await load(address);
    if (push) history.pushState(null, "", address);
    const shown = document.querySelector(".pager-shown, .empty-title");
    if (shown) announce(shown.textContent);
  } catch (error) {
    if (error.name !== "AbortError") location.assign(address);
  }
}

function submit(form) {
  const query = new URLSearchParams([...new FormData(form)].filter(([, value]) => value !== ""));
  const address = form.getAttribute("action");
  go(query.size ? `${address}?${query}` : address);
}

document.addEventListener("submit", (event) => {
  if (!event.target.matches("form[data-filter]")) return;
  event.preventDefault();
  submit(event.target);
});

document.addEventListener("change", (event) => {
  const form = event.target.closest("form[data-filter]");
  if (form && event.target.matches("select")) submit(form);
});

document.addEventListener("click", (event) => {
  const link = event.target.closest("a[data-in-place]");
  if (!link || event.defaultPrevented || event.button || event.ctrlKey || event.metaKey || event.shiftKey) return;
  event.preventDefault();
  go(link.href);
});

addEventListener("popstate", () => go(location.href, false));
