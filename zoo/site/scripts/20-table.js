/* --- table: headings that sort ---
 * heads have data-name; next(name) is called when the visitor asks for one. Returns what shows an order "NAME-asc" or "NAME-desc". */
Zoo.headings = (heads, next) => {
  for (const head of heads) {
    const button = Zoo.element("button", { type: "button" }, head.textContent);
    button.onclick = () => next(head.dataset.name);
    head.replaceChildren(button);
  }
  return order => {
    const [name, way] = order.split("-");
    for (const head of heads) head.setAttribute("aria-sort", head.dataset.name !== name ? "none" : way === "asc" ? "ascending" : "descending");
  };
};
/* A percentage as Python writes it: halves to even. */
Zoo.points = value => value % 1 === .25 ? `${Math.floor(value)}.2` : value.toFixed(1);
