// The reference once had one page per module: an old link to a name there leads to the name's own page.
function followOldLink() {
  const target = decodeURIComponent(location.hash.slice(1));
  if (!target.startsWith("likely.") || document.getElementById(target)) return;
  for (const { href } of document.querySelectorAll("article a[href*='generated/likely.']")) {
    const [page, name] = href.split("#");
    if (target === name || target.startsWith(`${name}.`)) return location.replace(`${page}#${target}`);
  }
}

// The version switcher: a list of versions stands beside their folders (docs/_versions.py writes it). Without it, with
// one version alone, and on a page that was opened from disk there is nothing to switch to.
async function addSwitcher() {
  const root = new URL(document.documentElement.dataset.content_root, location);
  const answer = await fetch(new URL("../versions.json", root)).catch(() => null);
  const versions = answer?.ok ? await answer.json() : [];
  if (versions.length < 2) return;
  const select = document.createElement("select");
  select.className = "version-switcher";
  select.ariaLabel = "Version of this documentation";
  for (const { folder, name } of versions) {
    const here = new URL(`../${folder}/`, root).pathname === root.pathname;
    select.add(new Option(name, folder, here, here));
  }
  select.onchange = async () => {
    const there = new URL(`../${select.value}/`, root);
    const page = new URL(location.pathname.slice(root.pathname.length) + location.hash, there);
    const found = await fetch(page, { method: "HEAD" }).catch(() => null);
    location = found?.ok ? page : there;
  };
  document.querySelector(".sidebar-version").remove();
  document.querySelector(".sidebar-brand").after(select);
}

addEventListener("DOMContentLoaded", () => {
  followOldLink();
  if (location.protocol.startsWith("http")) addSwitcher();
});
