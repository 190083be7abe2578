// SPDX-License-Identifier: MIT
// Search, and light or dark. Nothing is loaded from elsewhere and nothing is sent.
const root = document.documentElement, field = document.getElementById("search"), results = document.getElementById("results");
const asked = new URLSearchParams(location.search);

function setTheme(theme) {
  if (theme) root.dataset.theme = theme;
  // What the page looks like, for the test that opens it.
  const style = getComputedStyle(document.body);
  root.dataset.background = style.backgroundColor;
  root.dataset.color = style.color;
}
function remembered(value) {
  try {
    if (value) localStorage.setItem("theme", value);
    return localStorage.getItem("theme");
  } catch { return null; }  // pages opened from files may have no storage
}
setTheme(asked.get("theme") || remembered());
document.getElementById("theme").addEventListener("click", () => {
  const dark = root.dataset.theme ? root.dataset.theme === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
  setTheme(dark ? "light" : "dark");
  remembered(root.dataset.theme);
});

// Every word must occur. A heading that is the word counts most, then one that begins with it, then one that has it.
function score(section, words) {
  const heading = section.heading.toLowerCase(), text = section.text.toLowerCase();
  let total = 0;
  for (const word of words) {
    if (heading === word) total += 100;
    else if (heading.startsWith(word)) total += 40;
    else if (heading.includes(word)) total += 20;
    else if (text.includes(word)) total += 1 + Math.min(5, text.split(word).length - 1);
    else return 0;
  }
  return total;
}
function around(text, word) {
  const at = Math.max(0, text.toLowerCase().indexOf(word) - 40);
  return (at ? "… " : "") + text.slice(at, at + 140);
}
function search() {
  const words = field.value.toLowerCase().split(/\s+/).filter(Boolean);
  results.replaceChildren();
  results.hidden = words.length === 0;
  if (!words.length) return;
  const found = SECTIONS.map((section) => [score(section, words), section]).filter(([points]) => points > 0);
  found.sort((a, b) => b[0] - a[0]);
  for (const [, section] of found.slice(0, 30)) {
    const link = document.createElement("a"), where = document.createElement("small");
    link.href = `${section.page}.html#${section.anchor}`;
    link.textContent = section.heading;
    where.textContent = `${section.title}: ${around(section.text, words[0])}`;
    link.append(where);
    results.append(link);
  }
  if (!found.length) results.textContent = "Nothing found.";
}
field.addEventListener("input", search);
results.addEventListener("click", () => { results.hidden = true; });
document.addEventListener("keydown", (event) => {
  if (event.key === "Escape") results.hidden = true;
  if (event.key === "/" && document.activeElement !== field) { event.preventDefault(); field.focus(); }
  if (event.key === "Enter" && document.activeElement === field) results.querySelector("a")?.click();
});
if (asked.get("q")) {
  field.value = asked.get("q");
  search();
}
