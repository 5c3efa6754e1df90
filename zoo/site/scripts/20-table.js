/* --- table: a table of Python's that can be filtered at once, and sorted as soon as DataTables is there ---
 * Zoo.table(table, {
 *   values(place, name): what a row is sorted by, null for what is missing (last in both directions); its text without this function.
 *     place: of the row in the page as it came; name: data-name of the heading, where none is given the column is not sorted
 *   order: "NAME-asc", onOrder(order) })
 * The table names DataTables as data-script; it is loaded when nothing else is to be done, or when a heading is asked for.
 * returns {filter(keep) -> rows shown, order(order), shown() -> places in the order of the page, csv(columns)}. */
Zoo.table = (table, { values, order = "", onOrder } = {}) => {
  const body = table.tBodies[0], rows = [...body.rows], heads = [...table.tHead.rows[0].cells], places = new Map(rows.map((row, place) => [row, place]));
  let sorted = null, wanted = order, loading = false;
  const asked = () => {
    const [name, way] = wanted.split("-"), column = heads.findIndex(head => head.dataset.name === name);
    return column < 0 ? [] : [[column, way === "desc" ? "desc" : "asc"]];
  };
  const compare = sign => (a, b) => a === b ? 0 : a === null ? 1 : b === null ? -1 : a < b ? -sign : sign;
  function enhance() {
    Object.assign(DataTable.ext.type.order, { "zoo-asc": compare(1), "zoo-desc": compare(-1) });
    const columns = heads.map((head, column) => {
      const { name } = head.dataset;
      return name && values ? { type: "zoo", render: (text, kind, _, { row }) => kind === "sort" ? values(row, name) : text } : { orderable: !!name };
    });
    sorted = new DataTable(table, { paging: false, info: false, searching: false, autoWidth: false, orderClasses: false, layout: { topStart: null, topEnd: null, bottomStart: null, bottomEnd: null }, order: asked(), columns });
    sorted.on("order", () => {
      const [[column, way] = []] = sorted.order();
      wanted = way ? `${heads[column].dataset.name}-${way}` : "";
      onOrder?.(wanted);
    });
    performance.mark("zoo-table");
  }
  function load() {
    if (loading) return;
    loading = true;
    if (window.DataTable) return enhance();
    const script = Zoo.element("script", { src: table.dataset.script });
    script.onload = enhance;
    document.head.append(script);
  }
  if (order) load(); else (window.requestIdleCallback || setTimeout)(load, { timeout: 3000 });
  table.tHead.addEventListener("pointerenter", load, { once: true });
  const shown = () => [...body.rows].filter(row => !row.hidden).map(row => places.get(row));
  return {
    filter(keep) {
      let n = 0;
      rows.forEach((row, place) => { const kept = keep(place); n += kept; if (row.hidden === kept) row.hidden = !kept; });
      return n;
    },
    order(next) { wanted = next; if (sorted) sorted.order(asked()).draw(); else load(); },
    shown,
  };
};
