"""Framework of the labs: base class, discovery, stored results and reports."""
