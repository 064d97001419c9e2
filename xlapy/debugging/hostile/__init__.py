"""Hostile input: damaged and malicious bytes for every format that xlapy reads.

Each input must be read, or rejected with an error of xlapy, within bounds of time and memory.

- `formats` holds the table of formats: for each a corpus, a generator and a consumer;
- `mutations` holds the mutations of bytes and texts that the generators share;
- `examiner` runs inputs in a child process and measures them, `campaign` starts the processes and collects faults;
- `reduction` makes an input smaller that causes a fault.
"""
