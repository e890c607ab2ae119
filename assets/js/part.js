// Replaces the page's data-part elements by those of another address, without a reload: filters
// (form[data-filter]) and links (a[data-in-place]). data-part="asked" is replaced only when someone asked for
// another address, not by live updates: it may hold what is being typed.
import { announce } from "./announce.js";

let running;

// What had the focus gets it again, or the part that took its place.
function keepFocus(swap) {
  const { id, part, href } = { id: document.activeElement.id, part: document.activeElement.closest("[data-part]")?.id, href: document.activeElement.getAttribute?.("href") };
  swap();
  if (!part || document.activeElement !== document.body) return;
  const fresh = document.getElementById(part);
  const same = (id && document.getElementById(id)) || (href && [...(fresh?.querySelectorAll("a") ?? [])].find((a) => a.getAttribute("href") === href));
  if (fresh && !same) fresh.tabIndex = -1;
  (same || fresh)?.focus({ preventScroll: true });
}

function replace(old, fresh) {
  const open = [...old.querySelectorAll("details")].map((details) => details.open);
  fresh.querySelectorAll("details").forEach((details, i) => (details.open ||= open[i] ?? false));
  old.replaceWith(fresh);
}

export async function load(address, asked = false) {
  running?.abort();
  running = new AbortController();
  const response = await fetch(address, { signal: running.signal, headers: { accept: "text/html" } });
  if (!response.ok || response.redirected) throw new Error(response.statusText);
  const page = new DOMParser().parseFromString(await response.text(), "text/html");
  keepFocus(() => {
    for (const fresh of page.querySelectorAll("[data-part][id]")) {
      const old = document.getElementById(fresh.id);
      if (old && (asked || fresh.dataset.part !== "asked")) replace(old, fresh);
    }
  });
  document.title = page.title;
  document.dispatchEvent(new Event("parts"));
}

async function go(address, push = true) {
  try {
    await load(address, true);
    if (push) history.pushState(null, "", address);
    const shown = document.querySelector(".pager-shown, .empty-title");
    if (shown) announce(shown.textContent);
  } catch (error) {
    if (error.name !== "AbortError") location.assign(address);
  }
}

function submit(form) {
  const query = new URLSearchParams([...new FormData(form)].filter(([, value]) => value !== ""));
  go(query.size ? `${form.getAttribute("action")}?${query}` : form.getAttribute("action"));
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
