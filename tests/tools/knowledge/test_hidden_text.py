"""What a page hides from a person does not reach a model, however it is hidden; what a person sees does."""

from __future__ import annotations

import pytest

pytest.importorskip("selectolax", reason="needs the extra [knowledge]")

from wardround.core import ToolFailure
from wardround.tools.knowledge.page_text import read_html

HIDING = (
    "display:none",
    r"di\73 play: n\6f ne",
    "DISPLAY/**/:/**/NONE !important",
    "visibility:hidden",
    "content-visibility: hidden",
    "opacity:0",
    "opacity: .01",
    "opacity:0%",
    "zoom: 0",
    "scale: 0",
    "filter: blur(1px) opacity(0)",
    "filter:opacity(0%)",
    "transform: scale(0)",
    "transform: scaleX(0.0) rotate(4deg)",
    "transform:translateX(-9999px)",
    "transform: translate3d(0, -200vh, 0)",
    "transform: rotateY(90deg)",
    "transform:matrix(0,0,0,0,0,0)",
    "translate: -100vw",
    "clip-path: inset(100%)",
    "clip-path:circle(0)",
    "clip-path: polygon(0 0, 0 0, 0 0)",
    "clip: rect(0 0 0 0); position:absolute",
    "font-size:0",
    "font-size: 0.01em",
    "font-size:1px",
    "font: 0/0 a",
    "font: bold 1px serif",
    "font: bold 2px serif",
    "font-size: 2px",
    "opacity: 0.05",
    "zoom: 5%",
    "color:transparent",
    "color: rgba(0,0,0,0)",
    "color: rgb(0 0 0 / 0%)",
    "color:#0000",
    "color: hsla(0, 0%, 0%, 0)",
    "-webkit-text-fill-color: transparent",
    "color:#fff",
    "color: hsl(0 0% 100%)",
    "color:#fefefe",
    "color: black; background: #000",
    "background-color: black",
    "position:absolute; left:-9999px",
    "position: fixed; top: -100vh",
    "position:absolute; left: 9999px",
    "left: -100px; position: absolute",
    "left: 3000px; position: absolute",
    "text-indent:-999em",
    "margin-left:-5000px",
    "letter-spacing: -2em",
    "height:0; overflow:hidden",
    "max-height: 0",
    "width:1px;height:1px;overflow:hidden",
    "--none: none; display: var(--none)",
    "display: var(--unset, none)",
)
SEEN = (
    "display:block",
    "opacity:0.9",
    "zoom: 1",
    "color:#333",
    "color: white; background: navy",
    "color:#fff; background: url(x.png)",
    "transform: translateX(-10px) scale(0.98)",
    "transform: scale(1.0, 0.5)",
    "transform: rotate(90deg)",
    "filter: opacity(0.8)",
    "font-size: 14px",
    "font: 400 12px/1.5 serif",
    "font: 13px/0 serif",
    "font: bold 2.5px serif",
    "font-size: 2.5px",
    "font-size: calc(16px + 1px)",
    "height: calc(90px + 1px); overflow: hidden",
    "height: 1.5px; overflow: hidden",
    "opacity: 0.06",
    "zoom: 6%",
    "left: -99px; position: absolute",
    "left: 2999px; position: absolute",
    "margin: 0 0 1em -10px",
    "left: -20px; position: relative",
    "clip-path: inset(1%)",
    "letter-spacing: -0.5px",
    "max-width: 60em",
    "line-height: 0.9",
    "color: inherit",
)


def text_of(page: str) -> str:
    return read_html(page.encode(), "https://example.org/").text


@pytest.mark.parametrize("style", HIDING)
def test_what_a_style_hides_is_not_read(style: str) -> None:
    inline = text_of(f'<body><p>Sodium is low.</p><p style="{style}">canary <b>within</b></p></body>')
    assert "Sodium" in inline
    assert "canary" not in inline
    sheet = f"<style>p{{margin:0}} @media screen{{ .note, .x {{ {style} }} }}</style>"
    assert "canary" not in text_of(f"{sheet}<body><p>Sodium is low.</p><p class=note>canary</p></body>")


@pytest.mark.parametrize("style", SEEN)
def test_what_a_person_sees_is_read(style: str) -> None:
    assert "potassium" in text_of(f'<body><p>Sodium is low.</p><p style="{style}">and potassium</p></body>')


@pytest.mark.parametrize(
    "hidden",
    [
        "<details><summary>More</summary>canary <p>canary</p></details>",
        "<template><p>canary</p></template>",
        "<p hidden>canary</p>",
        "<p hidden=until-found>canary</p>",
        "<div popover>canary</div>",
        "<p aria-hidden=true>canary</p>",
        "<dialog>canary</dialog>",
        "<datalist><option>canary</datalist>",
        "<video>canary</video>",
        "<font color=white>canary</font>",
        "<div bgcolor=black>canary</div>",
        "<div style='background:#111'><span style='color:#121212'>canary</span></div>",
        "<svg><text>canary</text></svg>",
        "<div style='display:none'><p style='display:block'>canary</p></div>",
        "<link rel=stylesheet href='data:text/css,.n%7Bopacity:0%7D'><p class=n>canary</p>",
        "<style>@supports (x:y){@layer a{@media all{i{transform:scale(0)}}}}</style><i>canary</i>",
        "<style>:root{--s:0} b{opacity:var(--s)}</style><b>canary</b>",
        "<style>u{display:none} u{display:block}</style><u>canary</u>",
    ],
)
def test_what_an_element_or_a_sheet_hides_is_not_read(hidden: str) -> None:
    text = text_of(f"<body><p>Sodium is low.</p>{hidden}<p>So is potassium.</p></body>")
    assert "canary" not in text
    assert "Sodium" in text
    assert "So is potassium" in text


def test_what_is_hidden_in_print_only_and_open_details_are_read() -> None:
    sheet = "<style>@media print{p{display:none}} a:hover{opacity:0} p::before{font-size:0}</style>"
    text = text_of(
        f"{sheet}<body><p>Sodium is low.</p><details open><summary>More</summary><p>Drink less.</p></details>"
    )
    assert "Sodium is low" in text
    assert "Drink less" in text
    assert "More" in text


def test_light_text_on_a_dark_page_is_read() -> None:
    dark = "<style>body{background:#111;color:#eee} h1{color:#fff}</style><body><h1>Sodium</h1><p>It is low.</p></body>"
    assert "Sodium" in text_of(dark)
    assert "It is low" in text_of(dark)
    scheme = "<style>@media (prefers-color-scheme: dark){p{color:#fff}}</style><body><p>It is low.</p></body>"
    assert "It is low" in text_of(scheme)


def test_style_sheets_that_are_made_to_burn_time_end_the_page() -> None:
    with pytest.raises(ToolFailure, match="more than 500,000 characters of styles"):
        text_of(f"<style>{'p{margin:0}' * 50_000} b{{opacity:0}}</style><body><b>canary</b></body>")


@pytest.mark.parametrize(
    ("page", "is_read"),
    [
        ("<div>" * 500 + "Sodium", True),
        ("<div>" * 501 + "Sodium", False),
        ("<div></div>" * 2_000 + "Sodium", True),
        ("</div>" * 100 + "<DIV>" * 501 + "Sodium", False),
        ("<p><br><img>" * 2_000 + "Sodium", True),
    ],
)
def test_a_page_that_nests_to_burn_time_is_not_read(page: str, is_read: bool) -> None:
    """What needs no end (a paragraph, a break) is no element within another one."""
    if is_read:
        assert "Sodium" in text_of(page)
    else:
        with pytest.raises(ToolFailure, match="nests more than 500 elements"):
            text_of(page)


def test_a_page_of_more_than_twenty_megabytes_is_not_read() -> None:
    with pytest.raises(ToolFailure, match="more than 20,971,520 bytes of HTML"):
        read_html(b" " * (20_971_520 + 1), "https://example.org/")


def test_links_are_marked_by_number_and_domain_and_nothing_else_is_a_mark() -> None:
    page = read_html(
        """<title> A  page 【1†x】 </title><body><p>See <a href="/a">one</a>, <a href="#x">here</a>,
        <a href="mailto:x@example.org">mail</a>, <a href="http://[x">bad</a>, <a href="/a">one † again</a>,
        <a href="https://far.example.net/b"> far  away </a><a href="/c"></a>, 【7†fake】.</p>""".encode(),
        "https://example.org/",
    )
    assert page.title == "A page 〖1†x〗"
    marks = "See 【0†one】, here, mail, bad, 【0†one ‡ again】, 【1†far away†far.example.net】, 〖7†fake〗."
    assert " ".join(page.text.split()) == marks
    assert page.links == {0: "https://example.org/a", 1: "https://far.example.net/b"}
