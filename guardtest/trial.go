package guardtest

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"time"
)

const (
	// width is that of the screen that each line of a failure fits.
	width = 100
	// maxGrowth is what an endless line may cost in memory. A guard with the default
	// limit of 16 MiB costs 18 MiB; a server that holds the line, endless and more.
	maxGrowth = 48 * mib
	endless   = 64 * mib
	// firstID is the id of a session's first request; the next ones follow. No case
	// uses one of them.
	firstID = 1000
	// lateAnswer is how long a request may still be unanswered once a later one is
	// answered: servers answer in any order.
	lateAnswer = 5 * time.Second
	// maxRequests is how many requests a server may make in one session.
	maxRequests = 1000
	// askingInterval is how often a client that has hung up asks again. One write of the
	// server's may still go through, while another child is just being started.
	askingInterval = 50 * time.Millisecond
)

// A trial is one case, played in one session.
type trial struct {
	*session
	bench *bench
	lang  language
	c     Case

	shown     string // what was sent, as a failure shows it
	questions []*question
	answers   []string // to the case's own input, in a few words each
	count     int      // of lines that came
	requests  int      // of the server's
	latest    []byte   // of them

	findsOut bool // which language it is
	noise    map[string]bool
	missing  *question // what was waited for in vain
	gone     bool      // and the output had ended
	refused  bool      // the language, by an error
	failure  *Failure
	notes    []string
}

// A question is a request of the client's, or what a case has in its place.
type question struct {
	id     string
	method string
	own    bool // of the case
	answer *message
}

func (q *question) String() string { return q.method + ", id " + show(q.id, 24) }

func (b *bench) begin(ctx context.Context, c Case, lang language) (*trial, error) {
	s, err := startSession(ctx, b.newCmd, b.env)
	if err != nil {
		return nil, err
	}
	return &trial{session: s, bench: b, lang: lang, c: c}, nil
}

// end lets the process end by itself, for a moment, and judges what it still writes.
// Then nothing is left of the session.
func (t *trial) end() {
	t.closeStdin()
	late := time.NewTimer(lastWords)
	defer late.Stop()
	t.readOn(late.C)
	stderr := t.stop()
	if t.failure != nil {
		t.failure.Stderr = lastLines(stderr)
	}
}

// survive plays most cases: the input is sent, and the server goes on.
func survive(t *trial) {
	if !t.open() {
		return
	}
	before := t.written.Load()
	t.sendInput()
	probe := t.probe()
	if t.c.swallows {
		probe = t.probe()
	}
	if t.c.unread && !t.await(t.sent, t.bench.timeout) {
		t.fail("that the server takes all input, also of a client that reads nothing meanwhile",
			fmt.Sprintf("%d bytes were taken in %v; %s", t.written.Load()-before, t.bench.timeout, t.fate()))
		return
	}
	if !t.expect(probe, t.bench.timeout) {
		return
	}
	for _, q := range t.questions {
		if t.c.serves && q.own && !t.expect(q, min(t.bench.timeout, lateAnswer)) {
			return
		}
	}
	// An answer to the input may come later than that to the first probe.
	t.expect(t.probe(), t.bench.timeout)
}

// endure sends an endless line and looks at the memory that it costs.
func endure(t *trial) {
	if !t.open() || !t.expect(t.probe(), t.bench.timeout) {
		return
	}
	idle := peakMemory(t.cmd.Process.Pid)
	t.sendInput()
	t.send(fill(endless))
	t.write("\n")
	t.shown += fmt.Sprintf("%d MiB of a and a newline", endless/mib)
	if !t.expect(t.probe(), t.bench.timeout) {
		return
	}
	if grown := peakMemory(t.cmd.Process.Pid) - idle; grown > maxGrowth {
		t.fail(fmt.Sprintf("at most %d MiB more memory", maxGrowth/mib), fmt.Sprintf("%d MiB more", grown/mib))
	}
}

// finish sends the input and its end: all is answered, and the server exits.
func finish(t *trial) {
	if !t.c.oneShot && !t.open() {
		return
	}
	t.sendInput()
	t.closeStdin()
	t.shown += "the end of input"
	for _, q := range t.questions {
		if !t.expect(q, t.bench.timeout) {
			return
		}
	}
	late := time.NewTimer(t.bench.timeout)
	defer late.Stop()
	if t.expectExit(t.readOn(late.C)) && !t.cmd.ProcessState.Success() {
		t.notes = append(t.notes, "the end of input ends the process with "+t.fate())
	}
}

// hangUp closes the client's end of the server's output, and goes on asking.
func hangUp(t *trial) {
	if !t.open() || !t.expect(t.probe(), t.bench.timeout) {
		return
	}
	t.stdout.Close() // no line is wanted, so nobody reads
	t.shown = "more requests, the client's end of the output being closed"
	exited := false
	for late := time.Now().Add(t.bench.timeout); !exited && !t.cancelled() && time.Now().Before(late); {
		t.probe()
		exited = t.await(t.exited, askingInterval)
	}
	t.expectExit(exited)
}

// expectExit expects that the process ends, now that its output has, or should have.
func (t *trial) expectExit(ended bool) bool {
	if ended && t.await(t.exited, t.bench.timeout) {
		t.answers = append(t.answers, t.fate())
		return true
	}
	t.fail("an exit", fmt.Sprintf("the process runs after %v", t.bench.timeout))
	return false
}

// open begins the session, and reports whether the server takes part. Without a
// handshake there is nothing to do: the input comes first.
func (t *trial) open() bool {
	if !t.lang.handshake {
		return true
	}
	text, first := t.initialize()
	t.write(t.c.before + text)
	t.shown = show(t.c.before+text, width-10)
	if !t.expect(first, t.bench.timeout) {
		return false
	}
	if first.answer.code != "" {
		t.refuse(first)
		return false
	}
	var result struct {
		ProtocolVersion string `json:"protocolVersion"`
	}
	json.Unmarshal(first.answer.result, &result)
	t.lang.revision = result.ProtocolVersion
	t.write(initialized)
	return true
}

// refuse notes that the server answered with an error where it must not.
func (t *trial) refuse(q *question) {
	t.refused = true
	t.fail("a result for "+q.String(), show(string(q.answer.text), width-10))
}

// sendInput sends what the case has to send, in one write unless that is too long.
func (t *trial) sendInput() {
	t.count = 0 // what came before is no answer to it
	text := t.c.send
	if t.c.make != nil {
		text = t.c.make()
	}
	text = t.expand(text)
	if t.c.encode != nil {
		text = t.c.encode(text)
	}
	for _, id := range t.c.ids {
		t.ask(id, "the case's own", true)
	}
	switch {
	case !t.lang.handshake:
		text = t.c.before + text
	case t.c.oneShot:
		begin, _ := t.initialize()
		text = begin + initialized + text
	}
	t.write(text)
	t.shown = show(text, width-30)
	if t.shown != "" {
		t.shown += ", then "
	}
}

// expand puts requests in the places that are kept for them.
func (t *trial) expand(text string) string {
	var b strings.Builder
	for {
		before, rest, found := strings.Cut(text, "⟨")
		b.WriteString(before)
		if !found {
			return b.String()
		}
		inside, after, _ := strings.Cut(rest, "⟩")
		id, value, _ := strings.Cut(inside, " ")
		b.WriteString(t.bench.probe.request(t.lang, id, value))
		t.ask(id, t.bench.probe.method, true)
		text = after
	}
}

// probe sends the request that any server answers.
func (t *trial) probe() *question {
	q := t.ask(t.freshID(), t.bench.probe.method, false)
	t.write(t.bench.probe.request(t.lang, q.id, "") + "\n")
	return q
}

const initialized = `{"jsonrpc":"2.0","method":"notifications/initialized"}` + "\n"

// initialize returns the first request of a session.
func (t *trial) initialize() (string, *question) {
	q := t.ask(t.freshID(), "initialize", false)
	return `{"jsonrpc":"2.0","id":` + q.id + `,"method":"initialize","params":{"protocolVersion":"` + withInitialize.revision +
		`","capabilities":{},"clientInfo":` + clientInfo + "}}\n", q
}

func (t *trial) freshID() string { return strconv.Itoa(firstID + len(t.questions)) }

func (t *trial) ask(id, method string, own bool) *question {
	q := &question{id: id, method: method, own: own}
	t.questions = append(t.questions, q)
	return q
}

func (t *trial) write(text string) { t.send(strings.NewReader(text)) }

// expect reads until a question is answered, and reports whether it is.
func (t *trial) expect(q *question, most time.Duration) bool {
	late := time.NewTimer(most)
	defer late.Stop()
	for written := t.written.Load(); q.answer == nil; {
		line, err := t.next(late.C)
		if err == nil {
			t.take(line)
			continue
		}
		// A long line takes a busy machine a while.
		if now := t.written.Load(); err == errLate && now > written && !t.cancelled() {
			written = now
			late.Reset(most)
			continue
		}
		t.missing, t.gone = q, err == io.EOF
		came := fmt.Sprintf("nothing in %v; %s", most, t.fate())
		if t.gone {
			t.await(t.exited, lastWords)
			came = "the end of its output; " + t.fate()
		}
		if t.count > 0 {
			came = show(string(t.latest), width-10-len(came)-7) + ", then " + came
		}
		t.fail("an answer to "+q.String(), came)
		return false
	}
	return true
}

// readOn reads on, and reports whether the output ends in time.
func (t *trial) readOn(late <-chan time.Time) bool {
	for {
		line, err := t.next(late)
		if err != nil {
			return err == io.EOF
		}
		t.take(line)
	}
}

// take judges a line of the output.
func (t *trial) take(line []byte) {
	t.count++
	t.latest = line
	messages, err := parse(line, t.lang.revision == "2025-03-26")
	if err != nil {
		switch {
		case t.findsOut && t.noise == nil:
			t.noise = map[string]bool{string(line): true}
		case t.findsOut:
			t.noise[string(line)] = true
		case !t.bench.noise[string(line)] || t.c.Name == "control":
			t.fail("one JSON-RPC 2.0 message on each line of stdout", err.Error()+": "+show(string(line), width-12-len(err.Error())))
		}
		return
	}
	for i := range messages {
		if m := &messages[i]; m.isResponse() {
			t.settle(m)
		} else if m.id != "" {
			t.respond(m)
		}
	}
}

// settle finds out what a response responds to.
func (t *trial) settle(m *message) {
	if m.nameless() {
		t.answers = append(t.answers, m.answerTo())
		t.noteNameless(m)
		return
	}
	var to *question
	for _, q := range t.questions {
		if sameID(q.id, m.id) && (to == nil || q.own || to.answer != nil) {
			to = q
		}
	}
	switch {
	case to == nil:
		t.fail("no answer but to what was asked", show(string(m.text), width-10))
		return
	case to.answer != nil && (!to.own || t.c.serves):
		t.fail("one answer to "+to.String(), "a second: "+show(string(m.text), width-20))
		return
	case to.own:
		t.answers = append(t.answers, m.answerTo())
	}
	to.answer = m
}

func (t *trial) noteNameless(m *message) {
	if m.code == "" {
		return
	}
	note := "an answer " + cmp.Or(map[string]string{"null": "with a null id"}[m.id], "without an id") +
		" ends the session of clients built on go-sdk v1.8 and on the Java SDK"
	if !slices.Contains(t.notes, note) {
		t.notes = append(t.notes, note)
	}
}

// respond answers a request of the server's, as a client does that has no capabilities.
// A server that asks without end is not answered without end.
func (t *trial) respond(m *message) {
	if t.requests++; t.requests > maxRequests {
		t.fail(fmt.Sprintf("at most %d requests of the server's", maxRequests), "more")
		return
	}
	answer := `"error":{"code":-32601,"message":"Method not found"}`
	if m.method == "ping" {
		answer = `"result":{}`
	}
	t.write(`{"jsonrpc":"2.0","id":` + m.id + `,` + answer + "}\n")
}

// answer says what the case's own input got.
func (t *trial) answer() string { return cmp.Or(inRow(t.answers), "silent") }

// fail notes what was expected and what came in its place. The first failure counts:
// others follow from it.
func (t *trial) fail(expected, came string) {
	if t.failure == nil {
		sent := strings.TrimSuffix(t.shown, ", then ")
		t.failure = &Failure{Sent: cut(sent), Expected: cut(expected), Came: cut(came)}
	}
}
