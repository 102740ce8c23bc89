"""MkDocs hook: links that leave docs/ lead to files of the repository, which are not on the site.

The page of file formats links to the contracts in schemas/, for readers of the repository. On the
site only the text of such a link is shown. The chart of the results is one HTML file, so MkDocs does
not change its link to a page.
"""

import re
from pathlib import Path

_LEAVES_DOCS = re.compile(r"\[([^\]]+)\]\((?:\.\./)+(?:schemas|fixtures)/[^)]*\)")


def on_page_markdown(markdown, **_):
    return _LEAVES_DOCS.sub(r"\1", markdown)


def on_post_build(config, **_):
    chart = Path(config.site_dir, "results/chart.html")
    chart.write_text(chart.read_text().replace('href="servers.md"', 'href="servers.html"'))
