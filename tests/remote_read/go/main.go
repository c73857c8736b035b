// The client of go-msrpc, which we did not write, calls every method of remote read:
//
//	client PORT LEVEL MECHANISM PASSWORD UOW TOKEN
//
// LEVEL is none, connect, packet, integrity or privacy, MECHANISM spnego or ntlm; UOW and TOKEN, in hexadecimal, are of a
// transaction that the server can be enlisted in. It prints the numbers of the methods that succeeded. Everything else
// about the connection is what the library does when nothing is said, except that a second client has a connection of its
// own in the same association group: the library makes one call at a time on each, and a read that waits is cancelled by
// another call.
package main

import (
	"bytes"
	"context"
	"encoding/hex"
	"fmt"
	"os"
	"sort"
	"strconv"
	"time"

	"github.com/oiweiwei/go-msrpc/dcerpc"
	"github.com/oiweiwei/go-msrpc/msrpc/dtyp"
	"github.com/oiweiwei/go-msrpc/msrpc/mqmq"
	remoteread "github.com/oiweiwei/go-msrpc/msrpc/mqrr/remoteread/v1"
	"github.com/oiweiwei/go-msrpc/ssp"
	"github.com/oiweiwei/go-msrpc/ssp/credential"
	"github.com/oiweiwei/go-msrpc/ssp/gssapi"
)

const whole = 1 << 22

var done = map[int]bool{}

// must ends the program with what went wrong.
func must(opnum int, err error) {
	if err != nil {
		fmt.Fprintf(os.Stderr, "method %d: %v\n", opnum, err)
		os.Exit(1)
	}
	done[opnum] = true
}

func queue(name string) *mqmq.QueueFormat {
	return &mqmq.QueueFormat{
		QueueFormatType: 3,
		QueueFormat:     &mqmq.QueueFormat_QueueFormat{Value: &mqmq.QueueFormat_DirectID{DirectID: "OS:HOST\\private$\\" + name}},
	}
}

func subqueue(name string) *mqmq.QueueFormat {
	return &mqmq.QueueFormat{
		QueueFormatType: 8,
		SuffixAndFlags:  5,
		QueueFormat: &mqmq.QueueFormat_QueueFormat{
			Value: &mqmq.QueueFormat_DirectSubqueueID{DirectSubqueueID: "OS:HOST\\private$\\" + name}},
	}
}

func bodyOf(sections []*remoteread.SectionBuffer, body string) {
	if len(sections) != 1 || !bytes.Contains(sections[0].SectionBuffer, []byte(body)) {
		fmt.Fprintf(os.Stderr, "this is not %q: %v\n", body, sections)
		os.Exit(1)
	}
}

func main() {
	port, level, mechanism, password := os.Args[1], os.Args[2], os.Args[3], os.Args[4]
	uow, _ := hex.DecodeString(os.Args[5])
	token, _ := hex.DecodeString(os.Args[6])

	if level != "none" {
		gssapi.AddCredential(credential.NewFromPassword("alice", password))
		if mechanism == "spnego" {
			gssapi.AddMechanism(ssp.SPNEGO)
		}
		gssapi.AddMechanism(ssp.NTLM)
	}
	ctx, cancel := context.WithTimeout(gssapi.NewSecurityContext(context.Background()), time.Minute)
	defer cancel()
	levels := map[string]dcerpc.Option{
		"none": dcerpc.WithInsecure(), "connect": dcerpc.WithConnect(), "packet": dcerpc.WithSecurityLevel(dcerpc.AuthLevelPkt),
		"integrity": dcerpc.WithSign(), "privacy": dcerpc.WithSeal(),
	}
	endpoint := dcerpc.WithEndpoint("ncacn_ip_tcp:[" + port + "]")
	connection, err := dcerpc.Dial(ctx, "127.0.0.1", endpoint, dcerpc.WithNewTransport())
	must(-1, err)
	client, err := remoteread.NewRemoteReadClient(ctx, connection, levels[level])
	must(-1, err)
	canceller, err := remoteread.NewRemoteReadClient(ctx, connection, levels[level])
	must(-1, err)
	delete(done, -1)

	// The library takes the port that this method returns for the number of an error.
	if answer, err := client.GetServerPort(ctx, &remoteread.GetServerPortRequest{}); answer == nil {
		must(0, err)
	} else if strconv.Itoa(int(answer.Return)) != port {
		must(0, fmt.Errorf("the port is %d", answer.Return))
	}
	done[0] = true

	open := func(form *mqmq.QueueFormat) *remoteread.QueueNoSerialize {
		opened, err := client.OpenQueue(ctx, &remoteread.OpenQueueRequest{
			QueueFormat: form, Access: 1, ClientID: &dtyp.GUID{}, NonRoutingServer: 1, Major: 6, Minor: 1, Workgroup: 1,
		})
		must(2, err)
		return (*remoteread.QueueNoSerialize)(opened.Context)
	}
	orders, work := open(queue("orders")), open(queue("work"))

	started, err := client.StartReceive(ctx, &remoteread.StartReceiveRequest{
		Context: orders, RequestID: 1, MaxBodySize: whole, MaxCompoundMessageSize: whole,
	})
	must(7, err)
	bodyOf(started.PacketSections, "hello from far away")
	_, err = client.EndReceive(ctx, &remoteread.EndReceiveRequest{Context: orders, Ack: 2, RequestID: 1})
	must(9, err)

	// The queue is empty now: this one waits until it is cancelled.
	waited := make(chan error)
	go func() {
		_, err := client.StartReceive(ctx, &remoteread.StartReceiveRequest{
			Context: orders, RequestID: 2, Timeout: 60_000, MaxBodySize: whole, MaxCompoundMessageSize: whole,
		})
		waited <- err
	}()
	for {
		_, err = canceller.CancelReceive(ctx, &remoteread.CancelReceiveRequest{Context: orders, RequestID: 2})
		if err == nil || ctx.Err() != nil {
			break // before the other call has arrived there is nothing to cancel
		}
	}
	must(8, err)
	if err := <-waited; err == nil {
		must(8, fmt.Errorf("a read that was cancelled found a message"))
	}

	cursor, err := client.CreateCursor(ctx, &remoteread.CreateCursorRequest{Context: work})
	must(4, err)
	peeked, err := client.StartReceive(ctx, &remoteread.StartReceiveRequest{
		Context: work, Cursor: cursor.Cursor, Action: 0x80000000, MaxBodySize: whole, MaxCompoundMessageSize: whole,
	})
	must(7, err)
	bodyOf(peeked.PacketSections, "to be moved")
	_, err = client.CloseCursor(ctx, &remoteread.CloseCursorRequest{Context: work, Cursor: cursor.Cursor})
	must(5, err)

	later, err := client.OpenQueueForMove(ctx, &remoteread.OpenQueueForMoveRequest{
		QueueFormat: subqueue("work;later"), Access: 4, ClientID: &dtyp.GUID{}, NonRoutingServer: 1, Major: 6, Minor: 1,
		Workgroup: 1,
	})
	must(11, err)
	_, err = client.MoveMessage(ctx, &remoteread.MoveMessageRequest{
		ContextFrom: work, ContextTo: later.MoveContext, LookupID: peeked.SequenceID, // a message of a transaction: all of it
		TransactionID: &mqmq.TransactionUOW{Data: make([]byte, 16)},
	})
	must(10, err)

	_, err = client.EnlistRemoteTransaction(ctx, &remoteread.EnlistRemoteTransactionRequest{
		TransactionID: &mqmq.TransactionUOW{Data: uow}, PropagationTokenLength: uint32(len(token)), PropagationToken: token,
		QueueFormat: queue("work"),
	})
	must(12, err)
	received, err := client.StartTransactionalReceive(ctx, &remoteread.StartTransactionalReceiveRequest{
		Context: work, RequestID: 3, MaxBodySize: whole, MaxCompoundMessageSize: whole,
		TransactionID: &mqmq.TransactionUOW{Data: uow},
	})
	must(13, err)
	bodyOf(received.PacketSections, "to be rejected")
	_, err = client.EndTransactionalReceive(ctx, &remoteread.EndTransactionalReceiveRequest{Context: work, Ack: 2, RequestID: 3})
	must(15, err)
	_, err = client.SetUserAcknowledgementClass(ctx, &remoteread.SetUserAcknowledgementClassRequest{
		Context: work, LookupID: received.SequenceID, Class: 0xC004,
	})
	must(14, err)
	_, err = client.PurgeQueue(ctx, &remoteread.PurgeQueueRequest{Context: work})
	must(6, err)
	for _, handle := range []*remoteread.QueueSerialize{
		(*remoteread.QueueSerialize)(orders), (*remoteread.QueueSerialize)(work), later.Context,
	} {
		_, err = client.CloseQueue(ctx, &remoteread.CloseQueueRequest{Context: handle})
		must(3, err)
	}
	numbers := make([]int, 0, len(done))
	for number := range done {
		numbers = append(numbers, number)
	}
	sort.Ints(numbers)
	fmt.Println("ok", numbers)
}
