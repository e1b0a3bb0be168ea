"""Write the pages of docs/reference: `python -m tools.reference`."""

from __future__ import annotations

from tools.reference.pages import FOLDER, pages

if __name__ == "__main__":
    FOLDER.mkdir(exist_ok=True)
    for name, text in pages().items():
        (FOLDER / name).write_text(text, encoding="utf-8")
        print(FOLDER / name)
