// A text becomes the content of a text field: gradio reads it as if it was typed.
function setText(field, text) {
  const area = document.querySelector(`${field} textarea`);
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

// Ctrl+Enter, on a Mac also Cmd+Enter, scores or saves, wherever the focus is. The click of a disabled button does nothing.
addEventListener("keydown", event => {
  if (event.key !== "Enter" || !(event.ctrlKey || event.metaKey) || event.isComposing) return;
  event.preventDefault();
  event.stopPropagation();
  const buttons = [...document.querySelectorAll("#score, #score-book, #save")];
  if (!event.repeat) buttons.find(button => button.checkVisibility())?.click();
}, true);

// Annotators read each story from its beginning.
let step = "";
new MutationObserver(() => {
  const heading = document.querySelector("#annotation .step")?.textContent ?? "";
  if (heading !== step) { step = heading; scrollTo(0, 0); }
}).observe(document, {childList: true, subtree: true});

addEventListener("click", async event => {
  const button = event.target.closest("button");
  if (button?.id === "example") {
    setText("#story", button.dataset.story);
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

// Files are read by the browser into a text field, so that the server has no endpoint that takes a file: a story as its
// text, a book as its name and its content in base64.
addEventListener("change", async event => {
  const field = event.target.closest("#open, #open-book");
  if (!field || !event.target.matches("input[type=file]")) return;
  const [file] = event.target.files, problem = field.querySelector(".problem"), isBook = field.id === "open-book";
  const limit = Number(event.target.dataset.limit);
  event.target.value = "";
  problem.textContent = "";
  if (!file) return;
  try {
    if (file.size > limit) throw new RangeError();
    const content = await file.arrayBuffer();
    if (isBook) {
      setText("#book", `${file.name.replaceAll("\n", " ")}\n${inBase64(new Uint8Array(content))}`);
      field.querySelector(".name").textContent = file.name;
    } else {
      setText("#story", new TextDecoder("utf-8", {fatal: true}).decode(content));
    }
  } catch (error) {
    problem.textContent = error instanceof TypeError ? `${file.name} is not UTF-8 text.`
      : error instanceof RangeError ? `${file.name} is larger than ${limit} bytes.` : `${file.name} can't be read.`;
  }
});

function inBase64(bytes) {
  let binary = "";
  // Functions take only so many arguments.
  for (let at = 0; at < bytes.length; at += 32768) binary += String.fromCharCode(...bytes.subarray(at, at + 32768));
  return btoa(binary);
}
