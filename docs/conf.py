"""Sphinx configuration of the documentation site: `make docs` writes docs/_build/html."""

from __future__ import annotations

import sys
from pathlib import Path

from seqloom import __version__

sys.path.insert(0, str(Path(__file__).parent))  # for plain_docstrings

project = "seqloom"
version = release = __version__
extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.viewcode", "plain_docstrings"]
exclude_patterns = ["_build"]
highlight_language = "none"
smartquotes = False  # would turn --out into a dash and "out"

myst_heading_anchors = 4  # links such as data.md#columns, as on GitHub

autodoc_typehints = "none"
autodoc_member_order = "bysource"
autodoc_default_options = {"exclude-members": "model_config"}  # a field of every pydantic class

html_theme = "furo"
html_title = "seqloom"
html_static_path = ["_static"]
html_css_files = ["site.css"]
html_show_copyright = False
html_copy_source = False
