"""Small PDF files for tests."""

from collections.abc import Sequence


def pdf(pages: Sequence[Sequence[str]]) -> bytes:
    """Return a PDF file with these lines on its pages."""
    kids = " ".join(f"{4 + 2 * n} 0 R" for n in range(len(pages)))
    parts = [
        "1 0 obj<</Type/Catalog/Pages 2 0 R>>endobj",
        f"2 0 obj<</Type/Pages/Count {len(pages)}/Kids[{kids}]>>endobj",
        "3 0 obj<</Type/Font/Subtype/Type1/BaseFont/Helvetica>>endobj",
    ]
    for n, lines in enumerate(pages):
        text = " ".join(f"({line}) Tj T*" for line in lines)
        stream = f"BT /F1 12 Tf 14 TL 50 700 Td {text} ET"
        resources = "/Resources<</Font<</F1 3 0 R>>>>/MediaBox[0 0 600 800]"
        content = 5 + 2 * n
        parts.append(f"{4 + 2 * n} 0 obj<</Type/Page/Parent 2 0 R/Contents {content} 0 R{resources}>>endobj")
        parts.append(f"{content} 0 obj<</Length {len(stream)}>>stream\n{stream}\nendstream endobj")
    body, offsets = b"%PDF-1.4\n", list[int]()
    for part in parts:
        offsets.append(len(body))
        body += part.encode() + b"\n"
    table = "".join(f"{at:010} 00000 n \n" for at in offsets)
    size = len(parts) + 1
    table = f"xref\n0 {size}\n0000000000 65535 f \n{table}"
    return body + f"{table}trailer<</Size {size}/Root 1 0 R>>\nstartxref\n{len(body)}\n%%EOF\n".encode()
