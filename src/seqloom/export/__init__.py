"""Export to and import from other programs: CTranslate2, Marian, ARPA."""
