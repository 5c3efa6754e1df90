/* --- start --- */
document.documentElement.classList.add("js");
Zoo.pages[document.body.dataset.page]?.();
