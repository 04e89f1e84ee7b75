"""Markdown as models write it."""

import pytest

from atomic_sessions.html.markdown import to_html

REL = 'rel="noreferrer noopener" target=_blank'


@pytest.mark.parametrize(
    ("text", "html"),
    [
        ("plain", "<p>plain</p>"),
        ("a\nb", "<p>a\nb</p>"),
        ("a\n\nb", "<p>a</p><p>b</p>"),
        ("", ""),
        ("# T #", "<h3>T</h3>"),
        ("#no", "<p>#no</p>"),
        ("**b** *i* ~~s~~ `c`", "<p><strong>b</strong> <em>i</em> <del>s</del> <code>c</code></p>"),
        ("snake_case_name and 2 * 3 * 4", "<p>snake_case_name and 2 * 3 * 4</p>"),
        ("**a *b** c*", "<p><strong>a *b</strong> c*</p>"),
        ("`` a`b ``", "<p><code>a`b</code></p>"),
        ("`open", "<p>`open</p>"),
        ("a \\``` b", "<p>a ``` b</p>"),
        ("\\*no\\*", "<p>*no*</p>"),
        ("[t](https://a.b/c)", f'<p><a href="https://a.b/c" {REL}>t</a></p>'),
        ("[**t**](https://a.b/c_(d))", f'<p><a href="https://a.b/c_(d)" {REL}><strong>t</strong></a></p>'),
        ("[t](javascript:x)", "<p>[t](javascript:x)</p>"),
        ("![alt](https://a.b/c.png)", f'<p><a href="https://a.b/c.png" {REL}>image: alt</a></p>'),
        (
            "see https://a.b/c?x=1&y=2.",
            f'<p>see <a href="https://a.b/c?x=1&amp;y=2" {REL}>https://a.b/c?x=1&amp;y=2</a>.</p>',
        ),
        ("(https://a.b/c)", f'<p>(<a href="https://a.b/c" {REL}>https://a.b/c</a>)</p>'),
        ("<b>x</b>", "<p>&lt;b&gt;x&lt;/b&gt;</p>"),
        ("- a\n- b", "<ul><li>a</li><li>b</li></ul>"),
        ("- a\n  - b\n- c", "<ul><li>a<ul><li>b</li></ul></li><li>c</li></ul>"),
        ("3. a\n4. b", '<ol start="3"><li>a</li><li>b</li></ol>'),
        ("1. a\n\n   more\n\n2. b", "<ol><li>a<p>more</p></li><li>b</li></ol>"),
        ("In\n1999. it", "<p>In\n1999. it</p>"),
        ("> a\n> b", "<blockquote><p>a\nb</p></blockquote>"),
        ("---", "<hr>"),
        ("```py\nx < 1\n```\nend", '<pre data-l="py"><code>x &lt; 1</code></pre><p>end</p>'),
        ("~~~\n```\n~~~", "<pre><code>```</code></pre>"),
        ("```\nopen", "<pre><code>open</code></pre>"),
        ("- a\n  ```\n  x\n    y\n  ```", "<ul><li>a<pre><code>x\n  y</code></pre></li></ul>"),
        (
            "|a|b|\n|-|-|\n|1|2|",
            "<div class=tb><table><tr><th>a</th><th>b</th></tr><tr><td>1</td><td>2</td></tr></table></div>",
        ),
        ("a | b\nc", "<p>a | b\nc</p>"),
    ],
)
def test_markdown(text: str, html: str) -> None:
    """Each construct becomes its element, and what is none stays as it was written."""
    assert to_html(text) == html
