// data-live="address" follows a stream of server-sent events. "row" carries a table row that replaces the
// one with its id or goes on top of the data-live-rows body; "changed" means that the page's parts are to be
// loaded again. Rows do not move under a pointer or a focus: new ones wait until both have left. The stream
// ends while the page is hidden or the switch (data-live-switch) is off.
import { load } from "./part.js";

let stream, element, pending;
let waiting = [];

const rows = () => document.querySelector("[data-live-rows]");

function say() {
  const line = document.querySelector("[data-live-waiting]");
  if (line) line.textContent = waiting.length ? `${waiting.length} new` : "";
}

function release() {
  const body = rows();
  if (!waiting.length || body?.matches(":hover, :focus-within")) return;
  body?.prepend(...waiting.reverse());
  waiting = [];
  while (body?.rows.length > 100) body.lastElementChild.remove();
  for (const shown of document.querySelectorAll(".pager-shown")) shown.textContent = `${body?.rows.length} shown, newest first`;
  say();
}

function row(html) {
  const holder = document.createElement("template");
  holder.innerHTML = html;
  const fresh = holder.content.querySelector("tr");
  if (!rows() || !fresh) return;
  fresh.classList.add("fresh");
  const old = fresh.id && document.getElementById(fresh.id);
  if (old) {
    if (old.contains(document.activeElement)) return;
    if (old.querySelector("input:checked")) fresh.querySelector("input")?.click();
    old.replaceWith(fresh);
    return;
  }
  waiting = [...waiting.filter((other) => other.id !== fresh.id), fresh].slice(-100);
  release();
  say();
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
  const off = document.querySelector("[data-live-switch]")?.checked === false || document.hidden;
  if (next && next === element && stream && !off) return;
  stream?.close();
  if (next !== element) waiting = [];
  [stream, element] = [];
  state("off");
  if (!next || off) return;
  element = next;
  stream = new EventSource(next.dataset.live);
  stream.addEventListener("open", () => state("open"));
  stream.addEventListener("error", () => state("lost"));
  stream.addEventListener("row", (event) => row(event.data));
  stream.addEventListener("changed", changed);
}

for (const event of ["pointerover", "focusout"]) document.addEventListener(event, () => setTimeout(release));
for (const event of ["parts", "visibilitychange"]) document.addEventListener(event, follow);
document.addEventListener("change", (event) => event.target.matches("[data-live-switch]") && follow());
addEventListener("pagehide", () => stream?.close());
follow();
