package server

// OptionalMetrics are those that this build's engine and dispatcher do not count.
func OptionalMetrics(s *Server) []string {
	var missing []string
	if _, ok := any(s.Engine).(engineCounts); !ok {
		missing = append(missing, "waybill_deliveries_settled_total", "waybill_flush_batches_total", "waybill_flush_results_total")
	}
	if _, ok := any(s.dispatcher).(dispatcherCounts); !ok {
		missing = append(missing, "waybill_dispatch_batches_total", "waybill_dispatch_events_total")
	}
	return missing
}
