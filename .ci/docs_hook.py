"""MkDocs hook: links that leave docs/ lead to files of the repository, which are not on the site.

The page of file formats links to the contracts in schemas/, for readers of the repository. On the
site only the text of such a link is shown.
"""

import re

_LEAVES_DOCS = re.compile(r"\[([^\]]+)\]\((?:\.\./)+(?:schemas|fixtures)/[^)]*\)")


def on_page_markdown(markdown, **_):
    return _LEAVES_DOCS.sub(r"\1", markdown)
