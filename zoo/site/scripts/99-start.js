/* --- start, once the data that the body names are there: they load at once for choices in the address, else with the first thing that a visitor
 * does. What is typed, chosen or clicked until then is done then. --- */
document.documentElement.classList.add("js");
addEventListener("DOMContentLoaded", () => {
  const { page, later } = document.body.dataset, asked = [], start = () => { Zoo.pages[page]?.(); performance.mark("zoo-interactive"); };
  if (!later) return start();
  const uses = ["pointermove", "pointerdown", "focusin", "keydown", "scroll", "hashchange"], kept = ["input", "change", "click", "submit", "keydown"];
  const keep = event => {
    const { type, key } = event, target = type === "click" ? event.target.closest("button[type=button], th[data-name]") : event.target, last = asked.at(-1);
    if (!target || type === "keydown" && key.length < 2) return;
    if (type === "submit") event.preventDefault();
    if (last?.target === target && last.event.type === type) asked.pop();
    asked.push({ event, target, value: type === "input" || type === "change" ? { value: target.value, checked: target.checked } : {} });
  };
  const load = () => {
    for (const one of uses) removeEventListener(one, load);
    const script = Zoo.element("script", { src: later });
    script.onload = () => {
      for (const one of kept) removeEventListener(one, keep, true);
      start();
      for (const { event, target, value } of asked) Object.assign(target, value), (target.querySelector("button") ?? target).dispatchEvent(new event.constructor(event.type, event));
    };
    document.head.append(script);
  };
  for (const one of kept) addEventListener(one, keep, true);
  if (location.hash) load(); else for (const one of uses) addEventListener(one, load, { passive: true });
});
