/* --- start: when the scripts of the page have run as well, which may come after this one --- */
document.documentElement.classList.add("js");
addEventListener("DOMContentLoaded", () => Zoo.pages[document.body.dataset.page]?.());
