-- An event's content can be taken out on request. What is left is the record: that it was, of which resource, when, and what became of it.

alter table events add column expunged_at timestamptz, add column expunged_by text;
comment on column events.expunged_at is 'Its content was taken out: body is the envelope with data null, and says when.';
