"""English: reasons as sentences, amounts as phrases, and untrusted text made safe to print."""
