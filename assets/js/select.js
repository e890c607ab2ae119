// data-choose is a form of ticked rows: data-choose-all ticks them all, data-choose-count says how many,
// data-choose-action is off until one is ticked.
function count(form) {
  const boxes = [...form.querySelectorAll("tbody input[type=checkbox]")];
  const ticked = boxes.filter((box) => box.checked).length;
  for (const number of form.querySelectorAll("[data-choose-count]")) {
    number.textContent = ticked ? `${ticked} selected` : "";
  }
  for (const action of form.querySelectorAll("[data-choose-action]")) action.disabled = !ticked;
  const all = form.querySelector("[data-choose-all]");
  if (!all) return;
  all.checked = ticked > 0 && ticked === boxes.length;
  all.indeterminate = ticked > 0 && ticked < boxes.length;
}

document.addEventListener("change", (event) => {
  const form = event.target.closest("[data-choose]");
  if (!form) return;
  if (event.target.matches("[data-choose-all]")) {
    for (const box of form.querySelectorAll("tbody input[type=checkbox]")) box.checked = event.target.checked;
  }
  count(form);
});

function all() {
  document.querySelectorAll("[data-choose]").forEach(count);
}
document.addEventListener("parts", all);
all();
