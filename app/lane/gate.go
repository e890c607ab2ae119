package lane

import "sync"

// mostUncommitted results may be answered and not yet committed in one process: what a kill can make us send twice.
const mostUncommitted = 200

// gate counts answered, uncommitted results and stops lanes from starting requests while there are too many.
type gate struct {
	mu      sync.Mutex
	inside  int
	waiting map[*lane]struct{}
}

// shut says whether l must wait; it is kicked when the gate opens.
func (g *gate) shut(l *lane) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.inside < mostUncommitted {
		return false
	}
	if g.waiting == nil {
		g.waiting = map[*lane]struct{}{}
	}
	g.waiting[l] = struct{}{}
	return true
}

func (g *gate) enter() {
	g.mu.Lock()
	g.inside++
	g.mu.Unlock()
}

// leave lets the waiting lanes go on once half of the room is free, so that they are not woken for one place each.
func (g *gate) leave() {
	g.mu.Lock()
	g.inside--
	var woken map[*lane]struct{}
	if g.inside <= mostUncommitted/2 && len(g.waiting) > 0 {
		woken, g.waiting = g.waiting, nil
	}
	g.mu.Unlock()
	for l := range woken {
		l.kick()
	}
}
