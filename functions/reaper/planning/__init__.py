"""What `plan` rests on: which actions are possible, their dates, the reasons in words, snoozes, enrolment in office hours, contained resources."""
