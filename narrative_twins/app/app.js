// Arrow keys move the focus between sentences, so that the tab key does not stop at each.
addEventListener("keydown", event => {
  const step = {ArrowRight: 1, ArrowDown: 1, ArrowLeft: -1, ArrowUp: -1}[event.key];
  if (!step || !event.target.matches(".shaded .sentence")) return;
  const all = [...event.target.closest(".shaded").querySelectorAll(".sentence")];
  const next = all[all.indexOf(event.target) + step];
  event.preventDefault();
  if (next) { event.target.tabIndex = -1; next.tabIndex = 0; next.focus(); }
});
