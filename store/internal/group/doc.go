// Package group is what adapters share of their writing: requests that wait in a
// queue, and the leader that takes them into one transaction.
//
// The first caller that finds nobody writing leads. It takes the requests that
// wait, decides them one after another, and writes them together; each keeps its
// own verdict. A request that no group has taken yet can be withdrawn without a
// trace; one that was taken is carried out without its caller's context.
package group
