"""The page that a browser shows: hand-written modules, styles and one document, and what joins them into one file.

Here live `script/` (ES modules), `style/`, `index.html` and `bundle`. No data: the page asks /api/v1 for all of it. No
framework, nothing from elsewhere. Text of the cluster becomes text nodes only, by `element` of `script/dom.js`.
"""
