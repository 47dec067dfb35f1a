"""The templates of the mails and what fills them."""
