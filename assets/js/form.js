// Forms: a form that came back wrong gets the focus on its summary; a second press of a button while the
// first is on its way sends nothing; data-narrow="id" hides what does not contain the typed text.
document.querySelector("[data-focus]")?.focus();

const busy = new WeakSet();

document.addEventListener("submit", (event) => {
  if (event.defaultPrevented || event.target.method !== "post") return;
  if (busy.has(event.target)) event.preventDefault();
  busy.add(event.target);
  event.submitter?.setAttribute("aria-disabled", "true");
});

// A page that comes back from the browser's memory is fresh again.
addEventListener("pageshow", (event) => event.persisted && location.reload());

document.addEventListener("input", (event) => {
  const list = event.target.dataset?.narrow && document.getElementById(event.target.dataset.narrow);
  if (!list) return;
  const wanted = event.target.value.trim().toLowerCase();
  for (const item of list.querySelectorAll("[data-narrow-item]")) {
    item.hidden = !item.textContent.toLowerCase().includes(wanted);
  }
  for (const group of list.querySelectorAll("[data-narrow-group]")) {
    group.hidden = !group.querySelector("[data-narrow-item]:not([hidden])");
  }
});
