// What a person sees and can use in a page, by its words. A dialog that is open is all that can be used.
(() => {
  const tidy = (text) => (text ?? "").trim().replace(/\s+/g, " ");
  const place = () => [...document.querySelectorAll("dialog[open]")].pop() ?? document;
  const shown = (e) => e.checkVisibility({ checkOpacity: true, checkVisibilityCSS: true });
  const words = (e) => tidy(e.ariaLabel || e.innerText);

  // A link, a button, a summary or the label of a box to tick; the exact words first, then those that begin so.
  const usable = (name) => {
    const all = [...place().querySelectorAll("a[href], button, summary, label.choice")].filter((e) => shown(e) && !e.disabled);
    return all.find((e) => words(e) === name) ?? all.find((e) => words(e).startsWith(name));
  };
  const field = (label) => {
    for (const e of place().querySelectorAll("label")) {
      const field = e.control;
      if (field && shown(field) && tidy(e.innerText).replace(/ required$/, "") === label) return field;
    }
    return [...place().querySelectorAll("input, select, textarea")].find((e) => shown(e) && e.ariaLabel === label);
  };
  // Where to point at an element: its middle, if nothing else lies there.
  const middle = (e) => {
    if (!e) return null;
    e.scrollIntoView({ block: "center", inline: "nearest", behavior: "instant" });
    const box = e.getClientRects()[0];
    if (!box) return null;
    const [x, y] = [box.x + box.width / 2, box.y + box.height / 2];
    const hit = document.elementFromPoint(x, y);
    return hit && (e.contains(hit) || hit.contains(e)) ? [x, y] : null;
  };
  const isUsable = (e, name) => !!e && e !== document.body && (words(e) === name || (e.labels ? [...e.labels].some((l) => tidy(l.innerText).startsWith(name)) : false) || words(e).startsWith(name));
  const isField = (e, label) => !!e && e === field(label);
  const ringed = (e) => !!e && e.matches(":focus-visible") && getComputedStyle(e).outlineStyle !== "none";

  return {
    middleOf: (name) => middle(usable(name)),
    middleOfField: (label) => middle(field(label)),
    valueOf: (label) => field(label)?.value ?? null,
    focused: (name) => isUsable(document.activeElement, name) ,
    focusedField: (label) => isField(document.activeElement, label),
    ringed: () => ringed(document.activeElement),
    kind: () => document.activeElement?.type ?? document.activeElement?.tagName,
    // Styles may write in capitals what the page says in small letters.
    says: (text) => tidy((place().body ?? place()).innerText).toLowerCase().includes(text.toLowerCase()),
    all: () => tidy(document.body.innerText),
  };
})()
