#!/usr/bin/env python3
"""Opens docs/results/chart.html in Chromium, 400 and 1400 px wide, light and dark, with and without JavaScript.

    tests/live/chart.py [CHROMIUM]

Fails if the page is wider than the window, if a search, filter, link to a cell or key does not show what it should, or if the
page without JavaScript lacks a cell or its evidence. Needs Python 3.9 and Chromium.
"""

import re
import subprocess
import sys
import tempfile
from html import unescape
from pathlib import Path

CHART = Path(__file__).resolve().parents[2] / "docs/results/chart.html"
CHECKS = """
const failed = [], wait = () => new Promise(done => setTimeout(done, 100));
const check = (name, passed) => { if (!passed) failed.push(`${WIDTH} px: ${name}`); };
async function load(hash, sandbox) {
  const frame = document.createElement('iframe');
  if (sandbox) frame.setAttribute('sandbox', 'allow-same-origin');
  frame.style = `width: ${WIDTH}px; height: 900px; border: 0`;
  frame.src = CHART + hash;
  document.body.replaceChildren(frame);
  await new Promise(done => { frame.onload = done; });
  await wait();
  return frame.contentWindow;
}
const shown = (page, query) => [...page.document.querySelectorAll(query)].filter(element => element.offsetParent);
const set = (page, id, value) => {
  const control = page.document.getElementById(id);
  if (control.type === 'checkbox') control.checked = value; else control.value = value;
  control.dispatchEvent(new page.Event('input'));
};
async function run() {
  const page = await load('', false), find = query => page.document.querySelector(query);
  const heads = [...page.document.querySelectorAll('thead th')].slice(1), newest = heads.filter(head => !head.classList.contains('old'));
  check('the page fits', page.document.documentElement.scrollWidth <= WIDTH);
  check('the newest versions are shown', shown(page, 'thead th').length === newest.length + 1);
  set(page, 'history', true);
  check('the history is shown', shown(page, 'thead th').length === heads.length + 1);
  set(page, 'history', false);
  set(page, 'search', 'does vLLM with xgrammar enforce uniqueItems, and since when?');
  check('the search finds the feature', shown(page, 'tbody tr[data-words]').every(row => row.dataset.words.includes('uniqueitems')));
  check('the search finds the columns', shown(page, 'thead th[data-key]').every(head => head.dataset.key === 'vllm-xgrammar'));
  check('the search answers', /uniqueItems, vLLM, xgrammar: [a-z-]+/.test(find('#answer dt').textContent) && find('#answer dd'));
  set(page, 'search', 'minLength maxLength required vllm guidance');
  check('keywords are alternatives', ['minLength,', 'maxLength,', 'required,'].every(name => find('#answer').textContent.includes(name)));
  set(page, 'search', 'pattern vllm guidance');
  check('the verdicts of several features are counted', /guidance [0-9.]+: [0-9]+ enforced/.test(find('#answer').textContent));
  set(page, 'search', 'pattern minimum-nothing');
  check('unknown words are named', find('#answer').textContent.includes('minimum-nothing'));
  set(page, 'search', '');
  set(page, 'verdict', 'rejected');
  check('the filter finds verdicts', shown(page, 'tbody tr[data-words]').every(row => shown(page, 'td.rejected').some(cell => cell.parentNode === row)));
  set(page, 'verdict', '');
  set(page, 'changed', true);
  check('the filter finds changes', shown(page, 'tbody tr[data-words]').every(row => row.querySelector('.changed, .weak')));
  set(page, 'changed', false);
  const links = [...page.document.querySelectorAll('td a')], link = links[links.length - 1];
  page.location.hash = link.hash;
  await wait();
  const box = link.getBoundingClientRect();
  check('a link to a cell scrolls to it', box.top > 0 && box.bottom < 900 && box.left >= 0 && box.right <= WIDTH && link.parentNode.classList.contains('open'));
  check('a link to a cell shows its evidence', find('#panel').textContent.includes(decodeURIComponent(link.hash).split('@')[1]));
  page.dispatchEvent(new page.KeyboardEvent('keydown', { key: 'Escape' }));
  check('Escape closes the evidence', find('#panel').hidden);
  links[0].focus();
  links[0].dispatchEvent(new page.KeyboardEvent('keydown', { key: 'ArrowDown', bubbles: true }));
  check('arrow keys move', page.document.activeElement !== links[0] && page.document.activeElement.closest('td'));
  const plain = await load(link.hash, true);
  check('every cell is there without JavaScript', shown(plain, 'td a').length === links.length);
  check('the evidence is there without JavaScript', shown(plain, 'dd:target').length === 1);
  document.body.textContent = `done ${getComputedStyle(plain.document?.body ?? document.body).color} ${failed.join('; ')}`;
}
run().catch(error => { document.body.textContent = `done ${error.stack}`; });
"""


def run(chromium, width, dark):
    """What the checks print."""
    with tempfile.TemporaryDirectory() as folder:
        page = Path(folder, "checks.html")
        constants = f"const WIDTH = {width}, CHART = '{CHART.as_uri()}';"
        page.write_text(f"<!doctype html><meta charset=utf-8><body></body><script>{constants}{CHECKS}</script>")
        flags = ["--headless", "--no-sandbox", "--disable-gpu", "--allow-file-access-from-files", "--virtual-time-budget=60000"]
        flags += [f"--blink-settings=preferredColorScheme={int(not dark)}", f"--user-data-dir={folder}/profile", "--window-size=1500,1000"]
        shown = subprocess.run([chromium, *flags, "--dump-dom", page.as_uri()], capture_output=True, text=True, timeout=300)
    found = re.search(r"<body>done (.*?)</body>", shown.stdout, re.DOTALL)
    return unescape(found.group(1)) if found else f"the checks did not end: {shown.stdout[-300:]} {shown.stderr[-300:]}"


def main():
    chromium = sys.argv[1] if len(sys.argv) > 1 else "chromium"
    colours = set()
    for width, dark in ((400, False), (1400, True)):
        found = re.fullmatch(r"(rgb\([^)]*\)) (.*)", run(chromium, width, dark), re.DOTALL) or sys.exit(f"error: {run(chromium, width, dark)}")
        if found.group(2):
            sys.exit(f"error: {found.group(2)}")
        colours.add(found.group(1))
    if len(colours) != 2:
        sys.exit("error: light and dark have one colour of text")
    print("chart.html: 400 and 1400 px, light and dark, with and without JavaScript")


if __name__ == "__main__":
    main()
