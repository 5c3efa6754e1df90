"use strict";
/* The script of the site. Each part adds what it offers to Zoo; a page's own part is Zoo.pages[data-page of the body]. */
const Zoo = { pages: {}, root: document.body.dataset.root };

/* --- state: the address holds what the visitor chose, so that a link shows what the sender saw --- */
Zoo.state = {
  read() { return Object.fromEntries(new URLSearchParams(location.hash.slice(1))); },
  /* Writes the choices that differ from their defaults; empty ones are left out. */
  write(choices, defaults = {}) {
    const kept = Object.entries(choices).filter(([name, value]) => value !== "" && value != null && String(value) !== String(defaults[name] ?? ""));
    const hash = new URLSearchParams(kept).toString();
    if (hash !== location.hash.slice(1)) history.replaceState(null, "", hash ? `#${hash}` : location.pathname + location.search);
  },
  /* Calls back when the visitor opens another link of the same page. */
  watch(callback) { addEventListener("hashchange", () => callback(Zoo.state.read())); },
};

/* --- elements, always made of text and never of markup --- */
Zoo.element = (name, attributes = {}, ...children) => {
  const made = name.startsWith("svg:") ? document.createElementNS("http://www.w3.org/2000/svg", name.slice(4)) : document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) if (value != null && value !== false) made.setAttribute(key, value === true ? "" : value);
  made.append(...children.flat().filter(child => child != null && child !== false));
  return made;
};

/* An id, broken behind underscores. */
Zoo.name = id => id.split(/(?<=_)/).flatMap((part, place) => place ? [Zoo.element("wbr"), part] : part);

/* --- files that the visitor takes along --- */
Zoo.csv = rows => rows.map(row => row.map(cell => {
  const text = cell == null ? "" : String(cell);
  return /[",\n\r]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text;
}).join(",")).join("\r\n") + "\r\n";
Zoo.download = (name, text, type = "text/csv;charset=utf-8") => {
  const address = URL.createObjectURL(new Blob([text], { type }));
  const link = Zoo.element("a", { href: address, download: name });
  document.body.append(link); link.click(); link.remove();
  setTimeout(() => URL.revokeObjectURL(address), 10000);
};
