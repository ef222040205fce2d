// A text becomes the story: gradio reads it as if it was typed.
function setStory(text) {
  const area = document.querySelector("#story textarea");
  area.value = text;
  area.dispatchEvent(new Event("input", {bubbles: true}));
  area.scrollTop = 0;
}

// Arrow keys move the focus between sentences, so that the tab key does not stop at each.
addEventListener("keydown", event => {
  const step = {ArrowRight: 1, ArrowDown: 1, ArrowLeft: -1, ArrowUp: -1}[event.key];
  if (!step || !event.target.matches(".shaded .sentence")) return;
  const all = [...event.target.closest(".shaded").querySelectorAll(".sentence")];
  const next = all[all.indexOf(event.target) + step];
  event.preventDefault();
  if (next) { event.target.tabIndex = -1; next.tabIndex = 0; next.focus(); }
});

// Ctrl+Enter, on a Mac also Cmd+Enter, scores, wherever the focus is. The click of a disabled button does nothing.
addEventListener("keydown", event => {
  if (event.key !== "Enter" || !(event.ctrlKey || event.metaKey) || event.isComposing) return;
  event.preventDefault();
  event.stopPropagation();
  if (!event.repeat) document.querySelector("#score").click();
}, true);

addEventListener("click", async event => {
  const button = event.target.closest("button");
  if (button?.id === "example") {
    setStory(button.dataset.story);
    // After gradio has taken the text.
    setTimeout(() => document.querySelector("#score").click());
  } else if (button?.matches(".copy")) {
    const text = button.parentElement.querySelector(".extract");
    try {
      await navigator.clipboard.writeText(text.textContent);
    } catch {
      // Only pages of this machine, or by https, may use the clipboard directly.
      getSelection().selectAllChildren(text);
      document.execCommand("copy");
      getSelection().removeAllRanges();
    }
    button.textContent = "Copied";
    setTimeout(() => { button.textContent = "Copy"; }, 3000);
  }
});

// Files are read by the browser into the text field, so that the server has no endpoint that takes a file.
addEventListener("change", async event => {
  if (!event.target.matches("#open input")) return;
  const [file] = event.target.files, problem = document.querySelector("#open .problem");
  const limit = Number(event.target.dataset.limit);
  event.target.value = "";
  problem.textContent = "";
  if (!file) return;
  try {
    if (file.size > limit) throw new RangeError();
    setStory(new TextDecoder("utf-8", {fatal: true}).decode(await file.arrayBuffer()));
  } catch (error) {
    problem.textContent = error instanceof TypeError ? `${file.name} is not UTF-8 text.`
      : error instanceof RangeError ? `${file.name} is larger than ${limit} bytes.` : `${file.name} can't be read.`;
  }
});
