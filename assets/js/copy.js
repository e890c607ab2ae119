// data-copy="text" copies the text; data-copy-from="address" copies what the address answers.
import { announce } from "./announce.js";

async function textOf(address) {
  const response = await fetch(address);
  if (!response.ok) throw new Error(response.statusText);
  return response.text();
}

// The promise goes into the clipboard item, so that browsers that ask for a click's freshness see it.
function write(text) {
  if (!window.ClipboardItem) return Promise.resolve(text).then((t) => navigator.clipboard.writeText(t));
  const blob = Promise.resolve(text).then((t) => new Blob([t], { type: "text/plain" }));
  return navigator.clipboard.write([new ClipboardItem({ "text/plain": blob })]);
}

document.addEventListener("click", async (event) => {
  const source = event.target.closest("[data-copy], [data-copy-from]");
  if (!source || event.ctrlKey || event.metaKey) return;
  event.preventDefault();
  try {
    await write(source.dataset.copy ?? textOf(source.dataset.copyFrom));
    announce("Copied");
  } catch {
    announce("Could not copy");
  }
});
