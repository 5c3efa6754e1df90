/* --- table: a table that Python rendered; filtered at once, and sorted by DataTables as soon as that is there ---
 * Zoo.table(table, {
 *   values(place, name): what a row is sorted by, null for what is missing; place is that of the row in the page as it came, name is
 *     data-name of a heading, and headings without one are not sorted; by default the text of the cell, null in cells of class "missing"
 *   order: "NAME-asc" or "NAME-desc", "" for that of the page; onOrder(order) when the visitor asks for another;
 *   before(): called before DataTables takes the table })
 * data-script of the table is the address of DataTables, loaded when nothing else is to be done. What is missing comes last both ways.
 * returns {filter(keep(place)) -> number of rows shown, order(order), shown() -> their places from top to bottom}. */
Zoo.table = (table, { values, order = "", onOrder, before } = {}) => {
  const body = table.tBodies[0], heads = [...table.tHead.rows[0].cells], hidden = new Set();
  let known = null, sorted = null, wanted = order, loading = false, quiet = false;
  const rows = () => known ??= [...body.rows];
  const asked = () => {
    const [, name, way] = /^(.*)-(asc|desc)$/.exec(wanted) || [], column = heads.findIndex(head => name && head.dataset.name === name);
    return column < 0 ? [] : [[column, way]];
  };
  const compare = sign => (a, b) => a === b ? 0 : a === null ? 1 : b === null ? -1 : a < b ? -sign : sign;
  const valueOf = cell => {
    const text = cell.textContent.trim(), number = Number(text.replaceAll(",", ""));
    return cell.classList.contains("missing") || !text ? null : isNaN(number) ? text.toLowerCase() : number;
  };
  function enhance() {
    performance.mark("zoo-table-begins");
    Object.assign(DataTable.ext.type.order, { "zoo-asc": compare(1), "zoo-desc": compare(-1) });
    const columns = heads.map((head, column) => {
      const { name } = head.dataset, key = `zoo-${column}`;
      DataTable.ext.order[key] = () => rows().map((row, place) => (values ? values(place, name) : valueOf(row.cells[column])) ?? null);
      return { type: "zoo", orderDataType: key, orderable: !!name };
    });
    rows();
    let isInPlace = !asked().length; // then the first drawing, which takes longest, would move nothing
    const focused = document.activeElement; // DataTables takes the table out of the page for a moment
    sorted = new DataTable(table, {
      paging: false, info: false, searching: false, autoWidth: false, orderClasses: false, columns, order: asked(),
      layout: { topStart: null, topEnd: null, bottomStart: null, bottomEnd: null },
      preDrawCallback: () => { const skip = isInPlace; isInPlace = false; return !skip; },
    });
    if (table.contains(focused)) focused.focus({ preventScroll: true });
    sorted.on("order", () => {
      if (quiet) return;
      const [[column, way] = []] = sorted.order();
      wanted = way ? `${heads[column].dataset.name}-${way}` : "";
      onOrder?.(wanted);
    });
    performance.mark("zoo-table");
  }
  function load() {
    if (loading) return;
    loading = true;
    before?.();
    if (window.DataTable) return enhance();
    const script = Zoo.element("script", { src: table.dataset.script });
    script.onload = enhance;
    document.head.append(script);
  }
  if (order) load(); else (window.requestIdleCallback || setTimeout)(load, { timeout: 3000 });
  return {
    filter(keep) {
      for (let place = 0; place < body.rows.length; place++) {
        if (keep(place) !== hidden.has(place)) continue; // the row is as it should be
        if (!hidden.delete(place)) hidden.add(place);
        rows()[place].hidden = hidden.has(place);
      }
      return body.rows.length - hidden.size;
    },
    order(next) { wanted = next; quiet = true; sorted?.order(asked()).draw(); quiet = false; load(); },
    shown() { const places = new Map(rows().map((row, place) => [row, place])); return [...body.rows].filter(row => !row.hidden).map(row => places.get(row)); },
  };
};
