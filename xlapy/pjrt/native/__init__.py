"""The native half of the plugin, in LLVM text: what runs on every dispatch, and what runs when Python may not."""
