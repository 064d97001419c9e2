"""The native half of the plugin, as LLVM text: everything that runs on each dispatch or while Python may not run."""
