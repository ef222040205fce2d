// What happens is read out by screen readers: gradio replaces the status at each change, so its text is copied to an
// element that stays.
(() => {
  const said = document.createElement("div");
  said.className = "said";
  said.setAttribute("role", "status");
  setInterval(() => {
    if (!said.isConnected) document.body.append(said);
    const shown = [...document.querySelectorAll("[data-said]")].filter(each => each.checkVisibility());
    const text = shown.map(each => each.dataset.said).join(" ");
    if (said.textContent !== text) said.textContent = text;
    // gradio names the button otherwise than its text says, so that it can't be pressed by voice.
    document.querySelectorAll("#book button[aria-dropeffect][aria-label]").forEach(each => each.removeAttribute("aria-label"));
  }, 500);
})();
