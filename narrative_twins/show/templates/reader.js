// The reader of scored texts: scores of a sentence, ways from curve and links to the text, and shades by another
// operation. Elements come and go on the page, so events are taken at the document.
(() => {
  const parsed = new WeakMap(), indices = new WeakMap(), readout = document.createElement("div");
  readout.className = "readout";
  readout.setAttribute("role", "status");
  const readerOf = element => element.closest(".reader");
  const sentenceOf = element => element.closest?.(".reader .text span");
  const sentencesOf = reader => [...reader.querySelectorAll(".text span")];

  function operationsOf(reader) {
    if (!parsed.has(reader)) parsed.set(reader, JSON.parse(reader.dataset.operations));
    return parsed.get(reader);
  }
  function indexOf(sentence) {
    if (!indices.has(sentence)) sentencesOf(readerOf(sentence)).forEach((each, i) => indices.set(each, i));
    return indices.get(sentence);
  }
  function show(text) {
    if (!readout.isConnected) document.body.append(readout);
    readout.textContent = text;
  }
  function describe(sentence) {
    const reader = readerOf(sentence), all = operationsOf(reader), i = indexOf(sentence);
    const by = all.find(operation => operation.name === reader.dataset.by);
    const rank = by?.ranks ? `, rank ${by.ranks[i]} by ${by.name}` : "";
    const score = ({name, decimals, scores}) => `${name} ${(scores[i] / 10 ** decimals).toFixed(decimals)}`;
    return `Sentence ${i + 1} of ${all[0].scores.length}${rank}: ${all.map(score).join(" · ")}`;
  }
  function goTo(target) {
    for (let box = target; box; box = box.parentElement.closest("details")) if ("open" in box) box.open = true;
    const place = target.querySelector("summary") ?? target;
    if (place.tabIndex < 0) place.tabIndex = -1;
    place.scrollIntoView({block: "center"});
    place.focus({preventScroll: true});
  }
  // The element to go to from a place of a curve.
  function targetOf(svg, event) {
    const box = svg.getBoundingClientRect(), at = svg.dataset.at.split(" ");
    const place = Math.floor((event.clientX - box.left) / box.width * at.length);
    const index = at[Math.max(0, Math.min(place, at.length - 1))];
    return svg.dataset.what === "chapter" ? document.getElementById(`bc${index}`) : sentencesOf(readerOf(svg))[index];
  }
  function shade(reader, name) {
    reader.dataset.by = name;
    for (const part of reader.querySelectorAll("[data-for]")) part.hidden = part.dataset.for !== name;
    const {shades} = operationsOf(reader).find(operation => operation.name === name);
    sentencesOf(reader).forEach((sentence, i) => {
      const code = shades.charCodeAt(i);
      sentence.className = code < 97 ? `s${code - 48}` : `s${code - 97} top`;
    });
  }
  function copy(button) {
    getSelection().selectAllChildren(button.closest("section").querySelector(".sentences"));
    button.textContent = document.execCommand("copy") ? "Copied" : "Selected: copy it by Ctrl+C";
  }

  addEventListener("click", event => {
    const svg = event.target.closest?.(".reader svg[data-at]"), sentence = sentenceOf(event.target);
    const link = event.target.closest?.(".reader a[href^='#']"), button = event.target.closest?.("[data-copy]");
    const target = svg ? targetOf(svg, event) : link && document.getElementById(link.hash.slice(1));
    if (target) event.preventDefault(), goTo(target);
    if (button) copy(button);
    if (sentence && getSelection().isCollapsed) goTo(sentence);
  });
  addEventListener("change", event => {
    if (event.target.matches(".reader .by input")) shade(readerOf(event.target), event.target.value);
  });
  addEventListener("pointermove", event => {
    const svg = event.target.closest?.(".reader svg[data-at]");
    const place = svg ? targetOf(svg, event) : sentenceOf(event.target), focused = sentenceOf(document.activeElement);
    if (!place) return focused || show("");
    const text = place.querySelector("summary") ?? place;
    show(sentenceOf(place) ? describe(place) + (svg ? `: ${text.textContent.slice(0, 80)}` : "") : text.textContent);
  });
  addEventListener("focusin", event => show(sentenceOf(event.target) ? describe(event.target) : ""));
  addEventListener("keydown", event => {
    if (event.key === "Escape") show("");
    // Arrow keys go from sentence to sentence, so that the tab key does not stop at each.
    const sentence = sentenceOf(event.target);
    const right = sentence && getComputedStyle(sentence).direction === "rtl" ? -1 : 1;
    const step = {ArrowRight: right, ArrowDown: 1, ArrowLeft: -right, ArrowUp: -1}[event.key];
    if (!step || !sentence) return;
    const next = sentencesOf(readerOf(sentence))[indexOf(sentence) + step];
    event.preventDefault();
    if (next) sentence.tabIndex = -1, next.tabIndex = 0, goTo(next);
  });
})();
