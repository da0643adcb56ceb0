"""What LibreOffice's formats have beside plain text: what is hidden, what hangs on a paragraph."""

from __future__ import annotations

from zips import opendocument

STYLES = """<x xmlns:style="urn:oasis:names:tc:opendocument:xmlns:style:1.0"
 xmlns:text="urn:oasis:names:tc:opendocument:xmlns:text:1.0">
<style:style style:name="T1" style:family="text"><style:text-properties text:display="none"/>
</style:style>
<style:style style:name="T2" style:family="text" style:parent-style-name="T1"/>
<style:style style:name="T3" style:family="text" style:parent-style-name="T2">
<style:text-properties text:display="true"/></style:style>
<style:style style:name="P1" style:family="paragraph">
<style:text-properties text:display="none"/></style:style>
<style:style style:name="T1" style:family="paragraph"/>
<style:style style:name="ta" style:family="table"><style:table-properties table:display="false"
 xmlns:table="urn:oasis:names:tc:opendocument:xmlns:table:1.0"/></style:style>
</x>"""


def read(read_here, folder, kind, body):
    path = folder / f"a.{kind}"
    path.write_bytes(opendocument(kind, body, {"styles.xml": STYLES}))
    return read_here(path).text


def test_what_is_hidden_is_left_out(read_here, tmp_path):
    span = '<text:span text:style-name="{}">{}</text:span>'
    text = read(
        read_here,
        tmp_path,
        "text",
        f"<text:p text:style-name='T1'>a{span.format('T1', 'unseen')}b{span.format('T2', 'unseen')}"
        f"{span.format('T3', 'c')}<text:hidden-text text:is-hidden='true'>unseen</text:hidden-text>"
        "</text:p><text:p text:style-name='P1'>unseen</text:p>"
        "<text:section text:display='none'><text:p>unseen</text:p></text:section>",
    )
    assert text == "abc"


def test_boxes_and_shapes_follow_their_paragraph(read_here, tmp_path):
    box = "<drawing:{0}><text:p>in</text:p><text:p>side</text:p></drawing:{0}>"
    body = "".join(
        f"<text:p>{box.format(kind)}The paragraph.</text:p>" for kind in ("custom-shape", "g")
    )
    frame = "<drawing:frame><drawing:text-box><text:p>box</text:p></drawing:text-box>"
    body += f"<text:p>Last.{frame}</drawing:frame></text:p>"
    whole = "The paragraph.\n\nin\n\nside\n\n"
    assert read(read_here, tmp_path, "text", body) == f"{whole}{whole}Last.\n\nbox"


def test_hidden_sheets_say_so(read_here, tmp_path):
    cell = "<table:table-row><table:table-cell><text:p>x</text:p></table:table-cell>"
    sheet = f"<table:table table:name='S'{{}}>{cell}</table:table-row></table:table>"
    body = sheet.format("") + sheet.format(" table:style-name='ta'")
    assert read(read_here, tmp_path, "spreadsheet", body) == "# S\n\nx\n\n# S (hidden)\n\nx"
