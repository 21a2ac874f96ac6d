"""Readers of translation units: TMX, XLIFF, PO, MO, Qt TS and subtitles."""
