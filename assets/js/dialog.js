// a[data-dialog] opens the confirmation page it leads to as a dialog: the same markup, the same form.
async function open(link) {
  const response = await fetch(link.href, { headers: { accept: "text/html" } });
  if (!response.ok || response.redirected) throw new Error(response.statusText);
  const page = new DOMParser().parseFromString(await response.text(), "text/html");
  const sheet = page.getElementById("confirm");
  if (!sheet) throw new Error("no confirmation");
  const dialog = document.createElement("dialog");
  dialog.className = "dialog";
  const title = sheet.querySelector("h1");
  title.id = "dialog-title";
  dialog.setAttribute("aria-labelledby", title.id);
  dialog.append(sheet);
  dialog.addEventListener("close", () => {
    dialog.remove();
    link.focus();
  });
  // The key press that opened the dialog, held down, must not confirm it as well.
  let pressed = false;
  for (const type of ["keydown", "keypress"]) {
    dialog.addEventListener(type, (event) => {
      pressed ||= type === "keydown" && !event.repeat;
      if (!pressed) event.preventDefault();
    });
  }
  document.body.append(dialog);
  dialog.showModal();
}

document.addEventListener("click", (event) => {
  const close = event.target.closest("dialog [data-dialog-close]");
  if (close) {
    event.preventDefault();
    close.closest("dialog").close();
    return;
  }
  const link = event.target.closest("a[data-dialog]");
  if (!link || event.button || event.ctrlKey || event.metaKey || event.shiftKey) return;
  event.preventDefault();
  open(link).catch(() => location.assign(link.href));
});
