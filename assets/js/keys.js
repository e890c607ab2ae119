// data-key="g d" on a link, button or field: typing the keys, one after the other, uses it. "?" opens the
// sheet that lists them; j and k walk through the rows of a list, x ticks the one that they have come to.
let typed = "", timer;

function name(element) {
  return (element.ariaLabel || element.labels?.[0]?.textContent || element.textContent).trim().replace(/\s+/g, " ");
}

function sheet() {
  const dialog = document.querySelector("[data-shortcuts]");
  if (!dialog || dialog.open) return;
  const rows = [...document.querySelectorAll("[data-key]")].map((element) => [element.dataset.key, name(element)]);
  if (document.querySelector(".row-link")) rows.push(["j", "Next row"], ["k", "Previous row"]);
  if (document.querySelector("tr:has(.row-link) input[type=checkbox]")) rows.push(["x", "Select the row"]);
  rows.push(["?", "This list"]);
  dialog.querySelector("[data-shortcuts-list]").replaceChildren(
    ...rows.flatMap(([keys, text]) => {
      const term = document.createElement("dt");
      const words = document.createElement("dd");
      for (const key of keys.split(" ")) term.append(Object.assign(document.createElement("kbd"), { textContent: key }), " ");
      words.textContent = text;
      return [term, words];
    }),
  );
  dialog.showModal();
}

function walk(step) {
  const links = [...document.querySelectorAll(".row-link")];
  const at = links.indexOf(document.activeElement);
  links[at < 0 ? 0 : Math.min(Math.max(at + step, 0), links.length - 1)]?.focus();
}

document.addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey || event.target.closest("input, select, textarea, dialog")) return;
  if (event.key === "?") return sheet();
  if (!typed && (event.key === "j" || event.key === "k")) return walk(event.key === "j" ? 1 : -1);
  if (!typed && event.key === "x") return document.activeElement.closest("tr")?.querySelector("input[type=checkbox]")?.click();
  if (event.key.length !== 1) return;
  clearTimeout(timer);
  timer = setTimeout(() => (typed = ""), 1200);
  typed = typed ? `${typed} ${event.key}` : event.key;
  const keyed = [...document.querySelectorAll("[data-key]")];
  const target = keyed.find((element) => element.dataset.key === typed);
  if (!keyed.some((element) => element.dataset.key.startsWith(`${typed} `))) typed = "";
  if (!target) return;
  event.preventDefault();
  if (target.matches("input, textarea, select")) target.focus();
  else target.click();
});
