"""All that outlives a cycle without deciding anything; `memos` says what each part rests on."""
