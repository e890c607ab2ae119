// Keeps data-relative and data-countdown times true while the page stays open, in the words of web/ui/clock.go.
const units = [["d", 86400, 172800], ["h", 3600, 3600], ["min", 60, 60], ["s", 1, 0]];

function relative(seconds) {
  const gap = Math.abs(seconds);
  if (gap < 5) return "now";
  const [unit, size] = units.find(([, , from]) => gap >= from);
  const words = `${Math.floor(gap / size)} ${unit}`;
  return seconds < 0 ? `in ${words}` : `${words} ago`;
}

function countdown(seconds) {
  if (seconds <= 0) return "any moment";
  if (seconds >= 86400) return `in ${Math.floor(seconds / 86400)} d ${Math.floor((seconds % 86400) / 3600)} h`;
  if (seconds >= 3600) return `in ${Math.floor(seconds / 3600)} h ${Math.floor((seconds % 3600) / 60)} min`;
  if (seconds >= 60) return `in ${Math.floor(seconds / 60)} min ${seconds % 60} s`;
  return `in ${seconds} s`;
}

function show(element, text) {
  if (element.textContent !== text) element.textContent = text;
}

function tick() {
  if (document.hidden) return;
  const now = Date.now();
  for (const time of document.querySelectorAll("time[data-relative]")) {
    show(time, relative((now - Date.parse(time.dateTime)) / 1000));
  }
  for (const time of document.querySelectorAll("time[data-countdown]")) {
    show(time, countdown(Math.round((Date.parse(time.dateTime) - now) / 1000)));
  }
}

// The gallery shows a fixed day: <html data-frozen> keeps its words as they were printed.
if (!document.documentElement.hasAttribute("data-frozen")) setInterval(tick, 1000);
