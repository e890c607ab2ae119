// data-live="address" follows a stream of server-sent events. "row" carries a table row that replaces the
// one with its id or goes on top of the data-live-rows body; "changed" means that the page's parts are to be
// loaded again. The stream ends while the page is hidden or the switch (data-live-switch) is off.
import { load } from "./part.js";

let stream, element, pending;

function row(html) {
  const body = document.querySelector("[data-live-rows]");
  const holder = document.createElement("template");
  holder.innerHTML = html;
  const fresh = holder.content.querySelector("tr");
  if (!body || !fresh) return;
  const old = fresh.id && document.getElementById(fresh.id);
  const ticked = old?.querySelector("input:checked");
  fresh.classList.add("fresh");
  if (old) old.replaceWith(fresh);
  else body.prepend(fresh);
  if (ticked) fresh.querySelector("input").checked = true;
  while (body.rows.length > 100) body.lastElementChild.remove();
}

// A burst of changes is one reload a second.
function changed() {
  pending ??= setTimeout(() => {
    pending = undefined;
    load(location.href).catch(() => {});
  }, 1000);
}

function state(word) {
  const light = document.querySelector(".live");
  if (light) light.dataset.state = word;
}

function follow() {
  const next = document.querySelector("[data-live]");
  const off = document.querySelector("[data-live-switch]")?.checked === false;
  if (next && next === element && stream && !off && !document.hidden) return;
  stream?.close();
  stream = element = undefined;
  state("off");
  if (!next || off || document.hidden) return;
  element = next;
  stream = new EventSource(next.dataset.live);
  stream.addEventListener("open", () => state("open"));
  stream.addEventListener("error", () => state("lost"));
  stream.addEventListener("row", (event) => row(event.data));
  stream.addEventListener("changed", changed);
}

document.addEventListener("parts", follow);
document.addEventListener("visibilitychange", follow);
document.addEventListener("change", (event) => event.target.matches("[data-live-switch]") && follow());
addEventListener("pagehide", () => stream?.close());
follow();
