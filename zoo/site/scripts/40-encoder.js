/* --- buttons that copy the element of the id data-copy, on any page, and next to code without one; the page of an encoder: links that compare it with its neighbours, and values of a curve under the pointer --- */
for (const [place, source] of document.querySelectorAll(".code pre:not([id])").entries()) {
  source.id = `code-${place + 1}`;
  source.before(Zoo.element("button", { type: "button", class: "copy", "data-copy": source.id }, "Copy", Zoo.element("span", { class: "sr" }, ` ${source.previousElementSibling.textContent}`)));
}
for (const button of document.querySelectorAll("button.copy")) {
  const label = button.firstChild, source = document.getElementById(button.dataset.copy);
  button.addEventListener("click", async () => {
    try { await navigator.clipboard.writeText(source.textContent); label.data = "Copied"; }
    catch { /* no clipboard, as from the disk in some browsers: select it, so that a key copies it */
      getSelection().selectAllChildren(source); label.data = "Selected: press Ctrl+C";
    }
    setTimeout(() => { label.data = "Copy"; }, 2500);
  });
}
Zoo.pages.encoder = () => {
  for (const list of document.querySelectorAll("ul.near")) {
    const ids = [document.querySelector("h1").firstChild.data.trim(), ...[...list.querySelectorAll("a")].map(link => link.textContent)];
    list.after(Zoo.element("p", { class: "note" }, Zoo.element("a", { href: `${Zoo.root}compare.html#e=${ids.map(encodeURIComponent).join(",")}` }, "Compare it with these")));
  }
  for (const chart of document.querySelectorAll("svg.chart[data-values]")) {
    const points = chart.dataset.values.split(" ").map(pair => pair.split(":").map(Number));
    const [low, high] = [chart.dataset.low, chart.dataset.high].map(end => Math.log(end));
    const said = chart.closest("figure").querySelector("output");
    const line = Zoo.element("svg:line", { class: "cursor", y1: 0, y2: 240, visibility: "hidden" });
    chart.append(line);
    chart.addEventListener("pointermove", event => {
      const box = chart.getBoundingClientRect();
      const share = Math.min(Math.max((event.clientX - box.left) / box.width, 0), 1), at = low + share * (high - low);
      const [labels, error] = points.reduce((best, one) => Math.abs(Math.log(one[0]) - at) < Math.abs(Math.log(best[0]) - at) ? one : best);
      const place = `${100 * (Math.log(labels) - low) / (high - low)}%`;
      line.setAttribute("x1", place); line.setAttribute("x2", place); line.setAttribute("visibility", "visible");
      said.textContent = `${labels.toLocaleString("en")} labels: ${error.toFixed(1)} %`;
    });
    chart.addEventListener("pointerleave", () => { line.setAttribute("visibility", "hidden"); said.textContent = ""; });
  }
};
