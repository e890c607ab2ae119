// Runs in a page and lists what is wrong with it as it is painted: wider than the window, text whose contrast with what is behind it is below
// WCAG 2.2 AA, fields and buttons without a name, ids given twice.
(() => {
  const wrong = [];
  const root = document.documentElement;
  const called = (e) => `${e.tagName.toLowerCase()}${e.id ? "#" + e.id : ""}${e.className && e.className.trim ? "." + e.className.trim().replace(/\s+/g, ".") : ""}`;

  if (root.scrollWidth > innerWidth) {
    for (const e of document.querySelectorAll("body *")) {
      const box = e.getBoundingClientRect();
      if (box.right > innerWidth + 1 && !e.closest(".table-frame, .code, .tabs")) wrong.push(`wider than the page: ${called(e)} ends at ${Math.round(box.right)}`);
    }
    if (!wrong.length) wrong.push(`the page scrolls sideways: ${root.scrollWidth}`);
  }

  const ids = new Set();
  for (const e of document.querySelectorAll("[id]")) {
    if (ids.has(e.id)) wrong.push(`two elements have the id ${e.id}`);
    ids.add(e.id);
  }
  for (const e of document.querySelectorAll("input, select, textarea")) {
    if (e.type !== "hidden" && !e.ariaLabel && ![...(e.labels ?? [])].some((label) => label.textContent.trim())) wrong.push(`${called(e)} ${e.name} has no label`);
  }
  for (const e of document.querySelectorAll("a[href], button, summary")) {
    if (!e.ariaLabel && !e.textContent.trim() && !e.title) wrong.push(`${called(e)} has no words`);
  }

  const canvas = document.createElement("canvas").getContext("2d", { willReadFrequently: true });
  const parsed = new Map();
  const parse = (color) => {
    if (!parsed.has(color)) {
      canvas.clearRect(0, 0, 1, 1);
      canvas.fillStyle = color;
      canvas.fillRect(0, 0, 1, 1);
      parsed.set(color, [...canvas.getImageData(0, 0, 1, 1).data]);
    }
    return parsed.get(color);
  };
  const light = ([r, g, b]) => {
    const linear = (v) => ((v /= 255) <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4);
    return 0.2126 * linear(r) + 0.7152 * linear(g) + 0.0722 * linear(b);
  };
  const behind = (e) => {
    const layers = [];
    for (; e; e = e.parentElement) {
      const color = parse(getComputedStyle(e).backgroundColor);
      if (color[3]) layers.push(color);
      if (color[3] === 255) break;
    }
    return layers.reverse().reduce((under, c) => under.map((v, i) => v + ((c[i] - v) * c[3]) / 255), [255, 255, 255]);
  };
  const texts = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  const seen = new Set();
  while (texts.nextNode()) {
    const e = texts.currentNode.parentElement;
    const words = texts.currentNode.data.trim();
    if (!words || seen.has(e) || !e.checkVisibility() || e.closest("svg, option, datalist, [disabled], [aria-disabled=true], .visually-hidden")) continue;
    seen.add(e);
    const style = getComputedStyle(e);
    const [a, b] = [light(parse(style.color)), light(behind(e))].sort((x, y) => y - x);
    const ratio = (a + 0.05) / (b + 0.05);
    const large = parseFloat(style.fontSize) >= 24 || (parseFloat(style.fontSize) >= 18.66 && style.fontWeight >= 700);
    if (ratio < (large ? 3 : 4.5)) wrong.push(`contrast ${ratio.toFixed(2)}: ${called(e)} ${words.slice(0, 40)}`);
  }
  return wrong.slice(0, 8).join("\n");
})()
