-- Indexes for lists and filters. None names a column that an attempt changes, so recording one stays a heap-only update.

-- DeliveryKeysOfTests: test events are few among many.
create index deliveries_tests on deliveries (tenant_id, day, id) where test;

-- AttemptKeys: deliveries by an answer other than 2xx, by a retry or by a resend. What happens most, a first attempt that succeeds, is not in it.
create index attempts_notable on attempts (tenant_id, delivery_id) include (day, code, class, trigger)
    where trigger <> 'first' or code is null or code not between 200 and 299;

-- ResourceKeys and EventList of one resource, in the order of dispatch.
create index events_by_resource on events (tenant_id, resource_id, position);
