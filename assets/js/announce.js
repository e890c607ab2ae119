// Says a short sentence to everyone: a toast for the eyes, a live region for screen readers.
let timer;

export function announce(text) {
  const line = document.querySelector("[data-announcer]");
  if (!line) return;
  line.textContent = text;
  clearTimeout(timer);
  timer = setTimeout(() => (line.textContent = ""), 2500);
}
