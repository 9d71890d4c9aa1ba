"""Random worlds, and the laws that every one of them keeps."""
