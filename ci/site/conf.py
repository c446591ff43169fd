"""The site of the documentation. ci/build-site lays the pages beside this file."""

project = "replay"
html_title = "replay"
extensions = ["myst_parser"]
# Servers of Git show the pages as well: the same Markdown and anchors, and nothing that is Sphinx's.
myst_disable_syntax = ["myst_block_break", "myst_line_comment", "myst_role", "myst_target"]
myst_heading_anchors = 4
myst_links_external_new_tab = False
source_suffix = {".md": "markdown", ".rst": "restructuredtext"}
highlight_language = "none"
html_theme = "furo"
html_copy_source = False
html_show_sphinx = False
html_show_copyright = False
# A reference without a target, also one to a heading, is an error: ci/build-site asks for that.
nitpicky = True

# Our own blocks, for tests.
suppress_warnings = ["misc.highlighting_failure"]
